"""Observe groups that lagbench did not start."""
