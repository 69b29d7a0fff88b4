"""Draw the result of an experiment as an SVG picture: ``result.svg``.

Each panel is a measure that decides, each row a cell, each dot a run. Markdown pages show the file
as it is, so it has no script, and its colours are readable on a white and on a dark page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from lagbench.core.experiment.result.experiment_result import ExperimentResult, RunLine
from lagbench.core.measures.registry import NAMED

_WIDTH, _LABELS, _RIGHT = 760, 190, 30  # pixels
_ROW, _HEAD, _AXIS, _FOOT = 26, 34, 30, 26
_PASS, _FAIL, _INK, _GRID = "#2f81c7", "#d9730d", "#6e7781", "#8b949e55"
Place = Callable[[float], float]
_JITTER = 4.0  # pixels between the rows of dots, so that equal values are all seen


def as_figure(result: ExperimentResult) -> str | None:
    """Return the picture; None if no measure that decides has different values."""
    if not result.runs:
        return None
    found = {name: {run.values.get(name) for run in result.runs} for name in result.runs[0].values}
    names = [name for name, values in found.items() if len(values) > 1]
    same = [NAMED[name].title for name in found if name not in names and found[name] != {None}]
    if not names:
        return None
    cells = [cell.name for cell in result.cells]
    panel = _HEAD + _ROW * len(cells) + _AXIS
    height = panel * len(names) + _FOOT + (_FOOT if same else 0)
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    font = f'font-family="system-ui, sans-serif" font-size="12" fill="{_INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        f"<title>{escape(result.title)}</title>",
    ]
    for number, name in enumerate(names):
        parts.extend(_panel(name, cells, result.runs, panel * number))
    parts.extend(_legend(panel * len(names) + 14))
    if same:
        said = f"The same in each run: {', '.join(same)}"
        parts.append(_text(0, height - 10, said))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(name: str, cells: Sequence[str], runs: Sequence[RunLine], top: float) -> Iterator[str]:
    measure = NAMED[name]
    values = [value for run in runs if (value := run.values.get(name)) is not None]
    ticks = _ticks(values, measure.digits)
    low, high = ticks[0], ticks[-1]
    bottom = top + _HEAD + _ROW * len(cells)

    def place(value: float) -> float:
        return _LABELS + (value - low) / (high - low) * (_WIDTH - _LABELS - _RIGHT)

    yield _text(0, top + 16, measure.heading, weight="bold")
    for value in ticks:
        at = place(value)
        yield f'<path d="M{at:.1f} {top + _HEAD - 8}V{bottom}" stroke="{_GRID}"/>'
        yield _text(at, bottom + 16, measure.number(value), anchor="middle")
    for row, cell in enumerate(cells):
        middle = top + _HEAD + _ROW * (row + 0.5)
        yield _text(_LABELS - 12, middle + 4, cell, anchor="end")
        yield from _dots(name, [run for run in runs if run.cell == cell], middle, place)


def _dots(name: str, runs: Sequence[RunLine], middle: float, place: Place) -> Iterator[str]:
    known = sorted((run for run in runs if run.values.get(name) is not None), key=lambda r: r.pair)
    if not known:
        yield _text(_LABELS, middle + 4, "not measured")
        return
    mean = place(sum(run.values.get(name) or 0.0 for run in known) / len(known))
    yield f'<path d="M{mean:.1f} {middle - 10}v20" stroke="{_INK}" stroke-width="2"/>'
    for number, run in enumerate(known):
        at, shift = place(run.values.get(name) or 0.0), (number % 3 - 1) * _JITTER
        has_passed = run.verdict == "pass"
        fill, stroke = (_PASS, _PASS) if has_passed else ("none", _FAIL)
        value = NAMED[name].text(run.values.get(name))
        said = escape(f"pair {run.pair}, {run.cell}: {value}, {run.verdict}")
        place_and_size = f'cx="{at:.1f}" cy="{middle + shift:.1f}" r="4.5"'
        colours = f'fill="{fill}" fill-opacity="0.75" stroke="{stroke}" stroke-width="1.5"'
        yield f"<circle {place_and_size} {colours}><title>{said}</title></circle>"


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


def _legend(at: float) -> Iterator[str]:
    yield f'<circle cx="{_LABELS + 5}" cy="{at - 4}" r="4.5" fill="{_PASS}"/>'
    yield _text(_LABELS + 16, at, "run that passed")
    yield f'<circle cx="{_LABELS + 145}" cy="{at - 4}" r="4.5" fill="none" stroke="{_FAIL}"/>'
    yield _text(_LABELS + 156, at, "run that did not pass")
    yield f'<path d="M{_LABELS + 310} {at - 13}v18" stroke="{_INK}" stroke-width="2"/>'
    yield _text(_LABELS + 321, at, "mean of the cell")


def _text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">'
        f"{escape(words)}</text>"
    )
