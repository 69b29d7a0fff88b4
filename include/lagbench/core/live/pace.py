"""Bound the size of ``live.jsonl``: a line each second at first, then one in ten seconds."""

from __future__ import annotations

LINES_EACH_SECOND = 7_200
"""Two hours. A line of a group with 24 partitions has about 400 bytes."""
LATER_SECONDS = 10
MOST_BYTES = 64 * 1024 * 1024


def seconds_to_next_line(lines: int) -> int:
    """Return the time from line number ``lines`` to the next one, in seconds."""
    return 1 if lines < LINES_EACH_SECOND else LATER_SECONDS


def has_room(size_bytes: int, line: bytes) -> bool:
    """Return whether another line fits into a file of ``size_bytes``."""
    return size_bytes + len(line) <= MOST_BYTES
