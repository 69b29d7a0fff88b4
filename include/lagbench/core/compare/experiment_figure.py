"""The picture of an experiment: a panel for each measure, a row for each cell.

A run is a dot at its value, and the mean of the cell a line. Of a measure that scale steps have
each step is a dot, with a line over what it may be: a mean hides the step that breaks the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from lagbench.core.compare.experiment import ExpectedValue
from lagbench.core.compare.experiment_result import ExperimentResult, RunLine
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import StepValue

_WIDTH, _LABELS, _RIGHT = 760, 190, 30  # pixels
_LANE, _DOT, _HEAD, _AXIS, _FOOT = 9, 4.5, 34, 30, 26
_FEWEST_LANES, _MOST_LANES = 3, 15

_MET, _MISSED, _INK, _GRID = "#2f81c7", "#d9730d", "#6e7781", "#8b949e55"

Place = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Look:
    """How a dot is drawn, and what the legend says of it."""

    fill: str
    stroke: str
    said: str


RUN_LOOKS = {
    True: Look(_MET, _MET, "run that passed"),
    False: Look("none", _MISSED, "run that did not pass"),
}
STEP_LOOKS = {
    True: Look(_MET, _MET, "step within the limit"),
    False: Look(_MISSED, _MISSED, "step beyond the limit"),
    None: Look("none", _MISSED, "step that may be beyond it"),
}
UNCLAIMED = Look(_INK, _INK, "step without a limit")


@dataclass(frozen=True, slots=True)
class Mark:
    """One dot: its value, its bounds, and what a pointer on it shows."""

    value: float
    low: float
    high: float
    look: Look
    said: str


@dataclass(frozen=True, slots=True)
class Panel:
    """The marks of one measure by cell, and the limits that they are held against."""

    name: str
    rows: dict[str, list[Mark]]
    limits: tuple[float, ...]
    is_of_steps: bool


def as_figure(result: ExperimentResult) -> str | None:
    """Return the picture; None if no measure that decides has different values."""
    panels = [_panel_of(result, name) for name in (result.runs[0].values if result.runs else ())]
    shown = [panel for panel in panels if _differs(result, panel)]
    same = [
        NAMED[panel.name].title
        for panel in panels
        if panel not in shown and any(panel.rows.values())
    ]
    if not shown:
        return None
    return drawn(result.title, shown, f"The same in each run: {', '.join(same)}" if same else "")


def drawn(title: str, panels: Sequence[Panel], foot: str = "") -> str:
    """Return the SVG of panels, one below the other, with a line of text at the end."""
    parts, top = list[str](), 0.0
    for panel in panels:
        own, height = _drawn(panel, top)
        parts += own
        top += height
    for is_of_steps in sorted({panel.is_of_steps for panel in panels}):
        parts += _legend([one for one in panels if one.is_of_steps is is_of_steps], top + 14)
        top += _FOOT
    if foot:
        parts.append(_text(0, top + 16, foot))
        top += _FOOT
    size = f'viewBox="0 0 {_WIDTH} {top:g}" width="{_WIDTH}" height="{top:g}"'
    font = f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}"'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {font}>'
    return "\n".join([opened, f"<title>{escape(title)}</title>", *parts, "</svg>"]) + "\n"


def _panel_of(result: ExperimentResult, name: str) -> Panel:
    claims = {found.cell: found.limits for found in result.shown if found.name == name}
    limits = {number for claim in claims.values() if claim for number in claim.numbers}
    is_of_steps = any(run.steps.get(name) for run in result.runs)
    rows: dict[str, list[Mark]] = {cell.name: [] for cell in result.cells}
    for run in sorted(result.runs, key=lambda run: run.pair):
        whose = f"pair {run.pair}, {run.cell}"
        steps = step_marks(name, run.steps.get(name, ()), claims.get(run.cell), whose)
        rows[run.cell] += steps if is_of_steps else _of_run(run, name)
    return Panel(name, rows, tuple(sorted(limits)) if is_of_steps else (), is_of_steps)


def _differs(result: ExperimentResult, panel: Panel) -> bool:
    if panel.is_of_steps:
        return len({mark.value for row in panel.rows.values() for mark in row}) > 1
    return len({run.values.get(panel.name) for run in result.runs}) > 1


def _of_run(run: RunLine, name: str) -> Iterator[Mark]:
    value = run.values.get(name)
    if value is not None:
        said = f"pair {run.pair}, {run.cell}: {NAMED[name].text(value)}, {run.verdict}"
        yield Mark(value, value, value, RUN_LOOKS[run.verdict == "pass"], said)


def step_marks(
    name: str, steps: Sequence[StepValue], claim: ExpectedValue | None, whose: str
) -> Iterator[Mark]:
    """Yield the mark of each step that was measured; ``whose`` begins what a pointer shows."""
    measure = NAMED[name]
    for number, step in enumerate(steps, start=1):
        if step.value is None:
            continue
        low = step.value if step.low is None else step.low
        high = step.value if step.high is None else step.high
        look = UNCLAIMED if claim is None else STEP_LOOKS[claim.holds(low, high)]
        between = measure.spread(step.value, low, high)
        said = f"{whose}, step {number} of {len(steps)}: {between}"
        yield Mark(step.value, low, high, look, f"{said} {measure.unit}, {look.said}")


def _drawn(panel: Panel, top: float) -> tuple[list[str], float]:
    """Return the panel's parts and its height."""
    measure = NAMED[panel.name]
    ends = [end for row in panel.rows.values() for mark in row for end in (mark.low, mark.high)]
    ticks = _ticks([*ends, *panel.limits], measure.digits)
    low, high = ticks[0], ticks[-1]

    def place(value: float) -> float:
        return _LABELS + (value - low) / (high - low) * (_WIDTH - _LABELS - _RIGHT)

    parts, at = list[str](), top + _HEAD
    for cell, marks in panel.rows.items():
        lanes = _lanes([place(mark.value) for mark in marks])
        height = _LANE * max(_FEWEST_LANES, len(set(lanes)) + 1)
        parts.append(_text(_LABELS - 12, at + height / 2 + 4, cell, anchor="end"))
        if not marks:
            parts.append(_text(_LABELS, at + height / 2 + 4, "not measured"))
        elif not panel.is_of_steps:
            mean = place(sum(mark.value for mark in marks) / len(marks))
            parts.append(_line(mean, at + height / 2 - 10, 20, _INK, width=2))
        for mark, lane in zip(marks, lanes, strict=True):
            parts += _dot(mark, at + height / 2 + _LANE * lane, place)
        at += height
    of_what = ": each step" if panel.is_of_steps else ""
    grid = [_text(0, top + 16, f"{measure.heading}{of_what}", weight="bold")]
    for value in ticks:
        grid.append(_line(place(value), top + _HEAD - 8, at - top - _HEAD + 8, _GRID))
        grid.append(_text(place(value), at + 16, measure.number(value), anchor="middle"))
    grid += [
        _line(place(limit), top + _HEAD - 8, at - top - _HEAD + 8, _MISSED, dash="4 3")
        for limit in panel.limits
    ]
    return [*grid, *parts], at - top + _AXIS


def _lanes(places: Sequence[float]) -> list[int]:
    """Return the lane of each dot, 0 in the middle: none overlap while there are lanes."""
    lanes, last = [0] * len(places), dict[int, float]()
    for index in sorted(range(len(places)), key=places.__getitem__):
        tried = (-(n // 2) if n % 2 == 0 else n // 2 + 1 for n in range(_MOST_LANES))
        room = {lane: places[index] - last.get(lane, -_WIDTH) for lane in tried}
        free = (lane for lane, found in room.items() if found >= 2 * _DOT)
        lanes[index] = next(free, max(room, key=room.__getitem__))
        last[lanes[index]] = places[index]
    return lanes


def _dot(mark: Mark, y: float, place: Place) -> Iterator[str]:
    low, high, look = place(mark.low), place(mark.high), mark.look
    if high > low:
        thin = f'stroke="{look.stroke}" stroke-opacity="0.6"'
        yield f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" {thin}/>'
    at = f'cx="{place(mark.value):.1f}" cy="{y:.1f}" r="{_DOT}"'
    colours = f'fill="{look.fill}" fill-opacity="0.75" stroke="{look.stroke}" stroke-width="1.5"'
    yield f"<circle {at} {colours}><title>{escape(mark.said)}</title></circle>"


def _ticks(values: Sequence[float], digits: int) -> list[float]:
    """Return round numbers around ``values``, from 0 if these are not far above it."""
    low, high = min(values), max(values)
    if low > 0 and low < 0.6 * high:
        low = 0.0
    rough = max((high - low) / 4, 10.0**-digits)
    power = 10.0 ** floor(log10(rough))
    step = next(power * nice for nice in (1, 2, 5, 10) if power * nice >= rough * 0.999)
    first, last = floor(low / step), ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _legend(panels: Sequence[Panel], y: float) -> Iterator[str]:
    """Yield the line below the panels of runs, or of steps, with the looks that they have."""
    used = {mark.look for panel in panels for row in panel.rows.values() for mark in row}
    is_of_steps = panels[0].is_of_steps
    looks = (*STEP_LOOKS.values(), UNCLAIMED) if is_of_steps else RUN_LOOKS.values()
    at = float(_LABELS if not is_of_steps else 0)
    for look in looks:
        if look in used or not is_of_steps:
            colours = f'fill="{look.fill}" stroke="{look.stroke}"'
            yield f'<circle cx="{at + 5:.0f}" cy="{y - 4:g}" r="{_DOT}" {colours}/>'
            yield _text(at + 16, y, look.said)
            at += 165
    if not is_of_steps:
        yield _line(at + 5, y - 13, 18, _INK, width=2)
        yield _text(at + 16, y, "mean of the cell")
    elif any(panel.limits for panel in panels):
        yield _line(at + 5, y - 13, 18, _MISSED, dash="4 3")
        yield _text(at + 16, y, "limit")
        at += 60
    marks = (mark for panel in panels for row in panel.rows.values() for mark in row)
    if any(mark.low < mark.high for mark in marks):
        yield _text(at + 16, y, "a line through a dot is its precision")


def _line(x: float, y: float, height: float, stroke: str, *, width: int = 1, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path d="M{x:.1f} {y:g}v{height:g}" stroke="{stroke}" stroke-width="{width}"{dashed}/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
