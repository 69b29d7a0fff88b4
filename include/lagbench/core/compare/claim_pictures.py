"""Draw what an experiment's claim is about: the reaction by stage, and the wait against its cause.

They are drawn of the runs that have the numbers (``RunLine.pictured``), and of no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, pairwise
from statistics import fmean

from lagbench.core.compare import figure_parts as svg
from lagbench.core.compare.experiment_result import PRICE, SHARE, WAIT, ExperimentResult, RunLine
from lagbench.core.compare.figure_parts import Block, Drawing, Key, Look
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.reaction import STAGES

_LABEL, _BAR, _GAP, _NUMBER, _PLOT = 18, 18, 8, 22, 230  # pixels
_ACROSS = {
    SHARE: ("the hottest share", "of the messages", 3),
    PRICE: ("pod-minutes until at rest", "pod-minutes", 1),
}
"""The wait is drawn against the first of these that is known: its name, unit and decimals."""


def claim_pictures(result: ExperimentResult) -> Iterator[Block]:
    """Yield the pictures whose numbers are known, and not the same in every run."""
    if any(run.pictured != result.runs[0].pictured for run in result.runs):
        if stages := _by_cell(result, STAGES):
            yield partial(_reaction, stages)
        against = ((across, _by_cell(result, (WAIT, across))) for across in _ACROSS)
        for across, dots in [found for found in against if found[1]][:1]:
            yield partial(_wait_against, across, dots)


def _by_cell(result: ExperimentResult, names: Collection[str]) -> dict[str, list[RunLine]]:
    """Return the runs that have all these numbers, by cell; a cell without any is left out."""
    known = [run for run in result.runs if all(name in run.pictured for name in names)]
    found = {cell.name: [run for run in known if run.cell == cell.name] for cell in result.cells}
    return {cell: runs for cell, runs in found.items() if runs}


def _reaction(cells: Mapping[str, Sequence[RunLine]], top: float) -> Drawing:
    """Return a bar for each cell, of the mean of each stage."""
    means = {
        cell: [fmean(run.pictured[stage] for run in runs) for stage in STAGES]
        for cell, runs in cells.items()
    }
    ticks = svg.ticks_of([0.0, *map(sum, means.values())], 1)
    place, at, bars = svg.scale(ticks), top + svg.HEAD, list[str]()
    for cell, stages in means.items():
        counted = f"mean of {len(cells[cell])} runs" if len(cells[cell]) > 1 else "one run"
        bars.append(svg.text(0, at + 12, f"{cell}: {sum(stages):.1f} s, {counted}"))
        at += _LABEL
        ends = pairwise(map(place, accumulate(stages, initial=0.0)))
        for hue, seconds, (begin, end) in zip(svg.HUES, stages, ends, strict=False):
            size = f'width="{end - begin:.1f}" height="{_BAR}"'
            bars.append(f'<rect x="{begin:.1f}" y="{at:g}" {size} fill="{hue}"/>')
            if end - begin >= _NUMBER:
                middle, more = (begin + end) / 2, ' font-weight="bold" fill="#fff"'
                bars.append(svg.text(middle, at + 13, f"{seconds:.1f}", anchor="middle", more=more))
        at += _BAR + _GAP
    said, below = svg.heading(top, "Where the reaction goes, s"), at + svg.AXIS - 4
    grid = svg.axis(ticks, place, top + svg.HEAD, at, "{:,g}".format)
    squares = (partial(_square, hue) for hue in svg.HUES)
    told, height = svg.legend(list(zip(squares, STAGES.values(), strict=False)), below)
    return [said, *grid, *bars, *told], below + height + _GAP - top


def _square(hue: str, x: float, y: float) -> str:
    return f'<rect x="{x - 4:.1f}" y="{y - 5:.1f}" width="9" height="9" fill="{hue}"/>'


def _wait_against(name: str, cells: Mapping[str, Sequence[RunLine]], top: float) -> Drawing:
    """Return a dot for each run, tied to the mean of its cell where it stands against the price."""
    runs = [run.pictured for own in cells.values() for run in own]
    meaning, unit, digits = _ACROSS[name]
    zero = [0.0] if name == PRICE else []
    across = svg.ticks_of([*zero, *(run[name] for run in runs)], digits)
    up = svg.ticks_of([0.0, *(run[WAIT] for run in runs)], 1)
    begin, end = top + svg.HEAD + _GAP, top + svg.HEAD + _PLOT
    x_of, y_of = svg.scale(across, svg.LEFT + 12), svg.scale(up, end, begin)
    said = f"{NAMED[WAIT].heading} (up), against {meaning} (across)"
    parts = [svg.heading(top, said), *svg.axis(across, x_of, begin, end, "{:,g}".format)]
    for value in up:
        height = y_of(value)
        along = f'd="M{svg.LEFT + 12} {height:.1f}H{svg.WIDTH - svg.RIGHT}" stroke="{svg.GRID}"'
        number = svg.text(svg.LEFT + 6, height + 4, f"{value:,g}", anchor="end")
        parts += [f"<path {along}/>", number]
    keys = list[Key]()
    for place, (cell, own) in enumerate(cells.items()):
        hue = svg.HUES[place % len(svg.HUES)]
        full, hollow = Look(hue, hue, cell), Look("none", hue, cell)
        places = [(x_of(run.pictured[name]), y_of(run.pictured[WAIT])) for run in own]
        if name == PRICE:
            middle = " ".join(f"{fmean(ends):.1f}" for ends in zip(*places, strict=True))
            ties = "".join(f"M{middle}L{x:.1f} {y:.1f}" for x, y in places)
            parts.append(f'<path d="{ties}" stroke="{hue}" stroke-opacity="0.5"/>')
        for run, (x, y) in zip(own, places, strict=True):
            told = f"{run.pictured[WAIT]:.1f} s, {run.pictured[name]:.{digits}f} {unit}"
            who = f"pair {run.pair}, {cell}: {told}, {run.verdict}"
            parts.append(svg.circle(full if run.verdict == "pass" else hollow, x, y, who))
        keys.append((partial(svg.circle, full), cell))
    if any(run.verdict != "pass" for own in cells.values() for run in own):
        keys.append((partial(svg.circle, Look("none", svg.INK, "")), "hollow: did not pass"))
    told_parts, height = svg.legend(keys, end + svg.AXIS - 4)
    return [*parts, *told_parts], end + svg.AXIS - 4 + height + _GAP - top
