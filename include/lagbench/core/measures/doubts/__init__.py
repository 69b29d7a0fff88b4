"""Doubts about a run: what happened to it, or to its readings, that the plan does not have."""
