"""Read a recorded load from CSV: columns ``second`` and ``rate``, one row per change of rate.

A third column ``spike`` (0 or 1) marks the periods that are spikes; without it a rule decides
(``core/scenario/stream/spikes.py``).
"""

from __future__ import annotations

import csv
import json
import math
import re
from contextlib import suppress

from lagbench.core.scenario.profiles import MOST_PER_SECOND, TracePoint
from lagbench.errors import WrongInput

_COLUMNS = ["second", "rate"]
_MARKED_COLUMNS = [*_COLUMNS, "spike"]
MOST_ROWS = 10_000
"""A day in steps of 10 s has 8,640."""
_NUMBER = re.compile(r"\s*[0-9.eE+-]+\s*")  # float takes digits of every script, and 1_000


def trace_points(text: str, *, where: str) -> tuple[TracePoint, ...]:
    """Return the rows of a trace; the last row's second ends the stream.

    Blank lines and lines that begin with ``#`` are skipped. ``WrongInput`` names the line.
    """

    def refuse(field: str, value: object, allowed: str) -> WrongInput:
        return WrongInput(where=where, field=field, value=value, allowed=allowed)

    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if len(lines) > MOST_ROWS + 1:
        allowed = f"at most {MOST_ROWS:,}: give the rate of a longer period in each row"
        raise refuse("rows", len(lines) - 1, allowed)
    rows = [(number, next(csv.reader([line]))) for number, line in lines]
    columns = [cell.strip() for cell in rows[0][1]] if rows else []
    if columns not in (_COLUMNS, _MARKED_COLUMNS):
        header = lines[0][1] if lines else ""
        raise refuse("header", header, "the columns second,rate or second,rate,spike")
    points: list[TracePoint] = []
    for number, row in rows[1:]:
        point = _point(row, columns)
        follows = point is not None and (
            point.second > points[-1].second if points else point.second == 0
        )
        if point is None or not follows:
            allowed = (
                "numbers: second (0 in the first row, then ascending) and rate "
                f"(0 to {MOST_PER_SECOND}){', and spike (0 or 1)' * (columns == _MARKED_COLUMNS)}"
            )
            raise refuse(f"line {number}", ",".join(row), allowed)
        points.append(point)
    if len(points) < 2:
        seconds = json.dumps([point.second for point in points])
        raise refuse("rows", seconds, "at least two: the last row's second is the stream's end")
    return tuple(points)


def _point(row: list[str], columns: list[str]) -> TracePoint | None:
    cells = dict(zip(columns, row, strict=False))
    is_marked = columns == _MARKED_COLUMNS
    if len(row) != len(columns) or not all(map(_NUMBER.fullmatch, row[:2])):
        return None
    if is_marked and cells["spike"].strip() not in ("0", "1"):
        return None
    mark = cells["spike"].strip() == "1" if is_marked else None
    with suppress(ValueError):  # ValidationError is one
        second, rate = float(cells["second"]), float(cells["rate"])
        if math.isfinite(second):
            return TracePoint(second=second, rate_per_second=rate, is_spike=mark)
    return None
