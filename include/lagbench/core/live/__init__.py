"""Compute the live lines of a run while it is in progress."""

from lagbench.core.live.course import Course
from lagbench.core.live.line import (
    LiveCell,
    LiveLine,
    LivePhase,
    LiveSpike,
    SloStanding,
    decode_line,
    encode_line,
    has_room,
    seconds_to_next_line,
)
from lagbench.core.live.standings import live_slos

__all__ = [
    "Course",
    "LiveCell",
    "LiveLine",
    "LivePhase",
    "LiveSpike",
    "SloStanding",
    "decode_line",
    "encode_line",
    "has_room",
    "live_slos",
    "seconds_to_next_line",
]
