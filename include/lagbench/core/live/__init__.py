"""Compute the live lines of a run while it is in progress."""
