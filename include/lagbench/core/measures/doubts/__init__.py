"""Doubts about a run: what happened to it, or to its readings, that the plan does not have."""

from lagbench.core.measures.doubts.doubt import EVERYTHING, Doubt, Part
from lagbench.core.measures.doubts.policy_in_force import undone_edits
from lagbench.core.measures.doubts.readings import stale_readings
from lagbench.core.measures.doubts.rules import doubts_of
from lagbench.core.measures.doubts.window import Window

__all__ = ["EVERYTHING", "Doubt", "Part", "Window", "doubts_of", "stale_readings", "undone_edits"]
