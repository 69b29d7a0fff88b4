"""Draw lines over time as one picture: its places, for ``parts.lines`` of the templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lagbench.report.axis import Axis
from lagbench.report.series import Series

_LEFT, _RIGHT, _TOP, _BELOW = 66, 10, 16, 30  # pixels around the lines
_BINS = 360
"""Of a line as it is drawn: the lowest and the highest value of each."""
_FAR = 3
"""A limit that is higher by that factor would make the lines flat: it is not drawn."""


def line_chart(
    title: str,
    lines: Mapping[str, tuple[str, Series]],
    *,
    beside: Sequence[Series] = (),
    limits: Iterable[float] = (),
    spikes: Iterable[tuple[float, float]] = (),
    size: tuple[int, int] = (600, 250),
) -> dict[str, Any] | None:
    """Return the places of a picture of lines, and its axes; None: there is no line.

    :param lines: by their class of the styles, with their names.
    :param beside: lines of other pictures that have the same axis of time.
    :param spikes: beginnings and ends, in seconds.
    """
    if not lines:
        return None
    every = [line for line in (*beside, *(line for _, line in lines.values())) if line.seconds.size]
    begin = min(float(line.seconds[0]) for line in every)
    end = max(float(line.seconds[-1]) for line in every)
    bottom, right = size[1] - _BELOW, size[0] - _RIGHT
    highest = max(float(np.nanmax(line.values)) for _, line in lines.values())
    drawn = sorted({one for one in limits if one <= _FAR * highest})
    x = Axis(begin, end if end > begin else begin + 1, _LEFT, right, is_log=False)
    y = Axis(0.0, 1.06 * max([highest, *drawn]) or 1.0, bottom, _TOP, is_log=False)
    return {
        "title": title,
        "size": size,
        "box": {"left": _LEFT, "right": right, "top": _TOP, "bottom": bottom},
        "axes": (x, y),
        "limits": [y.at(one) for one in drawn],
        "spikes": [(x.at(begin), x.at(end)) for begin, end in spikes],
        "lines": [(name, text, _path(line, x, y)) for name, (text, line) in lines.items()],
    }


def _path(line: Series, x: Axis, y: Axis) -> str:
    """Return a line as a path; it is broken where a value is missing."""
    steps, is_open = list[str](), False
    size = max(1, -(-line.values.size // _BINS))
    for begin in range(0, line.values.size, size):
        values = line.values[begin : begin + size]
        if not np.isfinite(values).any():
            is_open = False
            continue
        for place in sorted({int(np.nanargmin(values)), int(np.nanargmax(values))}):
            at, value = float(line.seconds[begin + place]), float(values[place])
            steps.append(f"{'L' if is_open else 'M'}{x.at(at)},{y.at(value)}")
            is_open = True
    return "".join(steps)
