"""No caller floods the log."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from lagbench.programs.lag_scaler.log_limit import LogLimit


def record(level: int, text: Any, *values: object) -> logging.LogRecord:
    """Return a line of a program (a mapping) or of a library (a text)."""
    return logging.LogRecord("grpc", level, "", 0, text, values, None)


@pytest.mark.parametrize(("level", "most"), [(logging.INFO, 1_000), (logging.WARNING, 100)])
def test_lines_of_an_event_above_its_limit_are_left_out_and_counted(level: int, most: int) -> None:
    """Another event is not concerned; the next minute's first line says how many are missing."""
    now = [0.0]
    limit = LogLimit(lambda: now[0])

    written = [limit.filter(record(level, {"event": "refused"})) for _ in range(most + 7)]
    other = record(level, {"event": "decision"})
    assert limit.filter(other)
    assert other.msg == {"event": "decision"}
    now[0] = 60.0
    later = record(level, {"event": "refused"})
    assert limit.filter(later)

    assert written == [True] * most + [False] * 7
    assert later.msg == {"event": "refused", "left_out": 7}


def test_lines_of_a_library_count_together() -> None:
    """Their texts differ by the values in them."""
    limit = LogLimit(lambda: 0.0)

    written = [limit.filter(record(logging.ERROR, "call %d", n)) for n in range(101)]

    assert written == [True] * 100 + [False]


@pytest.mark.parametrize("value", ["x" * 100_000, ["x"] * 100_000])
def test_long_values_are_cut(value: object) -> None:
    """Whoever logs them."""
    ours, foreign = record(logging.INFO, {"event": "e", "why": value}), record(20, "%s", value)

    for line in (ours, foreign):
        LogLimit().filter(line)

    assert len(ours.msg["why"]) < 2_100
    assert len(foreign.getMessage()) < 2_100
