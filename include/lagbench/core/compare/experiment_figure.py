"""The picture of an experiment: what its claim is about, and a panel for each measure.

In a panel each cell has a row. A run is a dot at its value, and the mean of the cell a line. Of a
measure that scale steps have each step is a dot, with a line over what it may be: a mean hides the
step that breaks the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from textwrap import wrap

from lagbench.core.compare import figure_parts as svg
from lagbench.core.compare.claim_pictures import claim_pictures
from lagbench.core.compare.experiment import ExpectedValue
from lagbench.core.compare.experiment_result import ExperimentResult, RunLine
from lagbench.core.compare.figure_parts import Block, Drawing, Key, Look, Place
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import StepValue

_LABEL, _LANE, _FEWEST_LANES, _MOST_LANES = 16, 9, 3, 15
_LETTERS = 74  # in a line
_MET, _MISSED = svg.HUES[:2]

RUN_LOOKS = {
    True: Look(_MET, _MET, "run that passed"),
    False: Look("none", _MISSED, "run that did not pass"),
}
STEP_LOOKS = {
    True: Look(_MET, _MET, "step within the limit"),
    False: Look(_MISSED, _MISSED, "step beyond the limit"),
    None: Look("none", _MISSED, "step that may be beyond it"),
}
UNCLAIMED = Look(svg.INK, svg.INK, "step without a limit")


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
    blocks = list(claim_pictures(result))
    if not shown and not blocks:
        return None
    foot = wrap(f"The same in each run: {', '.join(same)}", _LETTERS) if same else []
    return drawn(result.title, shown, foot, first=blocks)


def drawn(
    title: str, panels: Sequence[Panel], foot: Sequence[str] = (), *, first: Iterable[Block] = ()
) -> str:
    """Return the SVG of blocks, then of panels, one below the other, and lines of text."""
    blocks: list[Block] = [*first, *(partial(_drawn, panel) for panel in panels)]
    for is_of_steps in sorted({panel.is_of_steps for panel in panels}):
        keys = _keys([one for one in panels if one.is_of_steps is is_of_steps])
        blocks.append(partial(svg.legend, list(keys)))
    parts, top = list[str](), 0.0
    for block in blocks:
        own, height = block(top)
        parts += own
        top += height
    for words in foot:
        parts.append(svg.text(0, top + 14, words))
        top += 20
    size = f'viewBox="0 0 {svg.WIDTH} {top:g}" width="{svg.WIDTH}" height="{top:g}"'
    font = f'font-family="system-ui, sans-serif" font-size="12" fill="{svg.INK}"'
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


def _drawn(panel: Panel, top: float) -> Drawing:
    measure = NAMED[panel.name]
    ends = [end for row in panel.rows.values() for mark in row for end in (mark.low, mark.high)]
    ticks = svg.ticks_of([*ends, *panel.limits], measure.digits)
    place, parts, at = svg.scale(ticks), list[str](), top + svg.HEAD
    for cell, marks in panel.rows.items():
        lanes = _lanes([place(mark.value) for mark in marks])
        height = _LANE * max(_FEWEST_LANES, len(set(lanes)) + 1)
        parts.append(svg.text(0, at + 12, cell))
        at += _LABEL
        if not marks:
            parts.append(svg.text(svg.LEFT, at + height / 2 + 4, "not measured"))
        elif not panel.is_of_steps:
            mean = place(sum(mark.value for mark in marks) / len(marks))
            parts.append(svg.line(mean, at + height / 2 - 10, 20, svg.INK, width=2))
        for mark, lane in zip(marks, lanes, strict=True):
            parts += _dot(mark, at + height / 2 + _LANE * lane, place)
        at += height
    of_what = ": each step" if panel.is_of_steps else ""
    grid = [svg.heading(top, f"{measure.heading}{of_what}")]
    grid += svg.axis(ticks, place, top + svg.HEAD, at, measure.number)
    grid += [
        svg.line(place(limit), top + svg.HEAD, at - top - svg.HEAD, _MISSED, dash="4 3")
        for limit in panel.limits
    ]
    return [*grid, *parts], at - top + svg.AXIS


def _lanes(places: Sequence[float]) -> list[int]:
    """Return the lane of each dot, 0 in the middle: none overlap while there are lanes."""
    lanes, last = [0] * len(places), dict[int, float]()
    for index in sorted(range(len(places)), key=places.__getitem__):
        tried = (-(n // 2) if n % 2 == 0 else n // 2 + 1 for n in range(_MOST_LANES))
        room = {lane: places[index] - last.get(lane, -svg.WIDTH) for lane in tried}
        free = (lane for lane, found in room.items() if found >= 2 * svg.DOT)
        lanes[index] = next(free, max(room, key=room.__getitem__))
        last[lanes[index]] = places[index]
    return lanes


def _dot(mark: Mark, y: float, place: Place) -> Iterator[str]:
    low, high = place(mark.low), place(mark.high)
    if high > low:
        thin = f'stroke="{mark.look.stroke}" stroke-opacity="0.6"'
        yield f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" {thin}/>'
    yield svg.circle(mark.look, place(mark.value), y, mark.said)


def _keys(panels: Sequence[Panel]) -> Iterator[Key]:
    """Yield the legend of panels of runs, or of steps, with the looks that they have."""
    used = {mark.look for panel in panels for row in panel.rows.values() for mark in row}
    is_of_steps = panels[0].is_of_steps
    looks = (*STEP_LOOKS.values(), UNCLAIMED) if is_of_steps else RUN_LOOKS.values()
    for look in looks:
        if look in used or not is_of_steps:
            yield partial(svg.circle, look), look.said
    if not is_of_steps:
        yield (lambda x, y: svg.line(x, y - 9, 18, svg.INK, width=2)), "mean of the cell"
    elif any(panel.limits for panel in panels):
        yield (lambda x, y: svg.line(x, y - 9, 18, _MISSED, dash="4 3")), "limit"
    marks = (mark for panel in panels for row in panel.rows.values() for mark in row)
    if any(mark.low < mark.high for mark in marks):
        yield (lambda _x, _y: ""), "a line through a dot is its precision"
