"""The size of live.jsonl is bounded, however long a run takes."""

from __future__ import annotations

from lagbench.core.live import has_room, seconds_to_next_line
from lagbench.core.live.line import LINES_EACH_SECOND, MOST_BYTES


def test_the_longest_run_has_few_lines() -> None:
    """Four days, the longest Dag run, make fewer than 42,000 lines."""
    lines, second = 0, 0
    while second < 4 * 86_400:
        second += seconds_to_next_line(lines)
        lines += 1

    assert lines < 42_000
    assert seconds_to_next_line(LINES_EACH_SECOND - 1) == 1


def test_a_full_file_takes_no_line() -> None:
    """A line fits as long as the file stays within its bound."""
    assert has_room(MOST_BYTES - 3, b"{}\n")
    assert not has_room(MOST_BYTES - 2, b"{}\n")
