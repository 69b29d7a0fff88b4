"""Read a recorded load from CSV: columns ``second`` and ``rate``, one row per change of rate.

A third column ``spike`` (0 or 1) marks the periods that are spikes; without it a rule decides
(``core/scenario/stream/spikes.py``).
"""

from __future__ import annotations

import csv
import json
import math
import re

from lagbench.core.scenario.profiles import MOST_PER_SECOND, TracePoint
from lagbench.errors import WrongInput

_COLUMNS = ["second", "rate"]
_MARKED_COLUMNS = [*_COLUMNS, "spike"]
MOST_ROWS = 10_000
"""A day in steps of 10 s has 8,640."""
_NUMBER = re.compile(r"\s*[0-9.eE+-]+\s*")  # float takes digits of every script, and 1_000
_MARKS = {"0": False, "1": True}


def trace_points(text: str, *, where: str) -> tuple[TracePoint, ...]:
    """Return the rows of a trace; the last row's second ends the stream.

    Blank lines and lines that begin with ``#`` are skipped.
    """
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) > MOST_ROWS + 1:
        allowed = f"at most {MOST_ROWS:,}: give the rate of a longer period in each row"
        raise WrongInput(where=where, field="rows", value=len(lines) - 1, allowed=allowed)
    rows = [(number, next(csv.reader([line]))) for number, line in lines]
    columns = [cell.strip() for cell in rows[0][1]] if rows else []
    if columns not in (_COLUMNS, _MARKED_COLUMNS):
        header = lines[0][1] if lines else ""
        raise WrongInput(
            where=where,
            field="header",
            value=header,
            allowed="the columns second,rate or second,rate,spike",
        )
    points: list[TracePoint] = []
    for number, row in rows[1:]:
        point = _point(row, columns)
        is_first = not points
        if point is None or (point.second != 0 if is_first else point.second <= points[-1].second):
            allowed = (
                "numbers: second (0 in the first row, then ascending) and rate "
                f"(0 to {MOST_PER_SECOND}){', and spike (0 or 1)' * (columns == _MARKED_COLUMNS)}"
            )
            raise WrongInput(
                where=where, field=f"line {number}", value=",".join(row), allowed=allowed
            )
        points.append(point)
    if len(points) < 2:
        raise WrongInput(
            where=where,
            field="rows",
            value=json.dumps([point.second for point in points]),
            allowed="at least two: the last row's second is the end of the stream",
        )
    return tuple(points)


def _point(row: list[str], columns: list[str]) -> TracePoint | None:
    if len(row) != len(columns) or not all(map(_NUMBER.fullmatch, row[:2])):
        return None
    mark = None if columns == _COLUMNS else _MARKS.get(row[2].strip())
    if mark is None and columns != _COLUMNS:
        return None
    try:
        second, rate = float(row[0]), float(row[1])
    except ValueError:
        return None
    if not (math.isfinite(second) and 0 <= rate <= MOST_PER_SECOND and second >= 0):
        return None
    return TracePoint(second=second, rate_per_second=rate, is_spike=mark)
