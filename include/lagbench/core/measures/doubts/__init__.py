"""Doubts about a run: what happened to it, or to its readings, that the plan does not have."""

from lagbench.core.measures.doubts.doubt import EVERYTHING, Doubt, Part, Window
from lagbench.core.measures.doubts.group import contradictions_of_members
from lagbench.core.measures.doubts.log import stale_readings
from lagbench.core.measures.doubts.policy import undone_edits
from lagbench.core.measures.doubts.rules import Validity, doubts_of, validity_of

__all__ = [
    "EVERYTHING",
    "Doubt",
    "Part",
    "Validity",
    "Window",
    "contradictions_of_members",
    "doubts_of",
    "stale_readings",
    "undone_edits",
    "validity_of",
]
