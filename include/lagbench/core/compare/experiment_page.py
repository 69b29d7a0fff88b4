"""Show the result of an experiment: its rows for the terminal, and the page ``result.md``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from lagbench.core.compare.experiment import Experiment, Schedule
from lagbench.core.compare.experiment_result import (
    CellComparison,
    ExperimentResult,
    RunLine,
    ShownValue,
    bounds_of,
    measured_names,
)
from lagbench.core.compare.noise_floor import NoiseFloor
from lagbench.core.compare.pair_statistics import Interval, sign_flip_p
from lagbench.core.compare.pairs import Difference
from lagbench.core.measures.measures import NAMED
from lagbench.core.significance import SIGNIFICANCE
from lagbench.core.simulation.simulation_measures import SimulationMeasures

HEADINGS = (
    "measure",
    "{first}",
    "{second}",
    "difference (95 % interval)",
    "noise floor",
    "bound",
    "Holm p",
    "verdict",
)
"""The titles of the columns; the names of both cells are inserted."""

SHOWN_HEADINGS = ("cell", "measure", "expected", "in each run", "verdict")

_UNKNOWN = "–"


def tested(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that have a verdict; the others are only listed."""
    return [found for found in differences if found.verdict != "listed"]


def in_order(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences that have a verdict, then those that are listed and were measured."""
    shown = [found for found in differences if not _is_unknown(found)]
    return sorted(shown, key=lambda found: found.verdict == "listed")


def not_measured(differences: Sequence[Difference]) -> str | None:
    """Return which listed measures no pair has in either cell; None: there are none."""
    titles = [found.title for found in differences if _is_unknown(found)]
    return f"not measured in these cells: {', '.join(titles)}" if titles else None


def _is_unknown(found: Difference) -> bool:
    means = (found.mean_first, found.mean_second)
    return found.verdict == "listed" and means == (None, None)


def difference_row(found: Difference, noise: NoiseFloor | None) -> tuple[str, ...]:
    """Return one measure's row; a dash where there is no value."""
    floor = None if noise is None else noise.of_measure(found.name)
    change = found.change(found.difference)
    if found.low is not None and found.high is not None:
        change += f" ({found.change(found.low)} to {found.change(found.high)})"
    return (
        found.heading,
        found.number(found.mean_first),
        found.number(found.mean_second),
        change,
        _within(found, None if floor is None else floor.half_width),
        _within(found, found.bound),
        _UNKNOWN if found.holm_p is None else f"{found.holm_p:.2g}",
        found.verdict,
    )


def _within(found: Difference, width: float | None) -> str:
    return _UNKNOWN if width is None else f"±{found.number(width)}"


def shown_row(found: ShownValue) -> tuple[str, ...]:
    """Return the row of a claim that needs no test; a dash where there is no value."""
    measure = NAMED[found.name]
    values = ", ".join(measure.number(value) for value in found.values)
    return (found.cell, measure.heading, found.expected, values, found.verdict)


def as_markdown(result: ExperimentResult, figure: str | None = None) -> str:
    """Return the page: question, differences, every run, notes; ``figure``: a file beside it."""
    return "\n".join(_lines(result, figure)) + "\n"


def _lines(result: ExperimentResult, figure: str | None) -> Iterator[str]:
    yield f"# {result.title}"
    yield ""
    yield result.question
    yield ""
    pairs = "pair" if result.pairs == 1 else "pairs"
    yield (
        f"Experiment `{result.experiment}`: {result.pairs} {pairs} on `{result.scenario}`, target "
        f"{result.target}, order drawn by seed {result.order_seed}."
    )
    if figure is not None:
        yield ""
        yield f"![Each run's value, by cell]({figure})"
    if result.kind == "noise floor":
        yield ""
        yield "Both cells are the same: every difference is noise."
    if result.shown:
        yield from _section("Shown by every run, without a test", SHOWN_HEADINGS)
        yield from (_row(shown_row(found)) for found in result.shown)
    for comparison in result.comparisons:
        yield from comparison_lines(comparison, result.noise)
    counted = ("passed", "failed", "undetermined", "gaps")
    yield from _section("Cells", ("cell", "policy", "meant to", *counted))
    for cell in result.cells:
        counts = (cell.passed, cell.failed, cell.undetermined, cell.gaps)
        yield _row((cell.name, cell.policy, cell.expects, *map(str, counts)))
    names = list(result.runs[0].values) if result.runs else []
    headings = ["pair", "cell", "seed", "HPA's sync, s", "verdict"]
    yield from _section(
        "Runs, in their order", [*headings, *(NAMED[name].heading for name in names), "run"]
    )
    for run in result.runs:
        phase = "–" if run.hpa_sync_at_seconds is None else f"{run.hpa_sync_at_seconds:.1f}"
        values = [NAMED[name].number(run.values[name]) for name in names]
        told = (str(run.pair), run.cell, str(run.seed), phase, run.verdict, *values)
        yield _row((*told, run.run_id or "–"))
    yield ""
    yield "## Notes"
    yield ""
    yield from (f"* {note}" for note in result.notes)


class ComparisonTable(NamedTuple):
    """One cell against another as a table, and in sentences."""

    title: str
    headings: list[str]
    rows: list[tuple[str, ...]]
    sentences: list[str]

    @classmethod
    def of(cls, one: CellComparison, noise: NoiseFloor | None) -> ComparisonTable:
        """Return the rows that were measured, those with a verdict first, and why pairs lack."""
        return cls(
            f"{one.second} minus {one.first}, {len(one.pairs)} pairs",
            [text.format(first=one.first, second=one.second) for text in HEADINGS],
            [difference_row(found, noise) for found in in_order(one.differences)],
            [
                *(f"{found.title}: {found.text}" for found in tested(one.differences)),
                *filter(None, [not_measured(one.differences)]),
                *(f"left out: {reason}" for reason in one.left_out),
            ],
        )


def comparison_lines(comparison: CellComparison, noise: NoiseFloor | None) -> Iterator[str]:
    """Yield the section of a comparison, as Markdown."""
    table = ComparisonTable.of(comparison, noise)
    yield from _section(table.title, table.headings)
    yield from map(_row, table.rows)
    yield ""
    yield from (f"* {sentence}" for sentence in table.sentences)


def _section(title: str, headings: Sequence[str]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield _row(headings)
    yield _row(["---"] * len(headings))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


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


Simulated = Mapping[tuple[int, str], SimulationMeasures]
"""The simulated runs by pair and cell."""

PREDICTED_HEADINGS = ("measure", "cell", "in each pair", "difference (95 % interval)", "bound")


@dataclass(frozen=True, slots=True)
class PredictedValues:
    """A measure of one cell in each pair, and its difference to the first cell."""

    name: str
    cell: str
    values: tuple[float | None, ...]
    difference: Interval | None  # None: the first cell, a shown measure, or too few pairs
    outlook: str  # what the difference would show, or what the file expects of each value

    @property
    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        measure, found = NAMED[self.name], self.difference
        values = ", ".join(measure.number(value) for value in self.values)
        if found is None:
            return (measure.heading, self.cell, values, "", self.outlook)
        mean, low, high = (f"{value:+,.1f}" for value in (found.mean, found.low, found.high))
        return (measure.heading, self.cell, values, f"{mean} ({low} to {high})", self.outlook)


def predicted_values(
    experiment: Experiment, schedule: Schedule, simulated: Simulated
) -> tuple[PredictedValues, ...]:
    """Return the compared and shown measures that the simulator has, for each cell."""
    return tuple(
        found
        for name in measured_names(experiment)
        if name in SimulationMeasures.__slots__
        for found in _of_measure(name, experiment, schedule, simulated)
    )


def not_simulated(experiment: Experiment) -> str | None:
    """Return which compared or shown measures the simulator does not have; None: it has all."""
    missing = [
        NAMED[name].title
        for name in measured_names(experiment)
        if name not in SimulationMeasures.__slots__
    ]
    return f"not simulated: {', '.join(missing)}" if missing else None


def _of_measure(
    name: str, experiment: Experiment, schedule: Schedule, simulated: Simulated
) -> Iterator[PredictedValues]:
    bound = next((one for one in bounds_of(experiment) if one.name == name), None)
    pairs = range(1, schedule.pairs + 1)
    first = [getattr(simulated[pair, experiment.cells[0].name], name) for pair in pairs]
    for place, cell in enumerate(experiment.cells):
        values = [getattr(simulated[pair, cell.name], name) for pair in pairs]
        both = zip(first, values, strict=True)
        known = [(a, b) for a, b in both if a is not None and b is not None]
        differences = [b - a for a, b in known]
        found = Interval.of(differences) if place and bound is not None else None
        expected = cell.shows.get(name)
        outlook = "" if expected is None else f"expected {expected.text}"
        if found is not None and bound is not None:
            width = bound.width(sum(a for a, _ in known) / len(known))
            outlook = _outlook(differences, found, width)
        yield PredictedValues(name, cell.name, tuple(values), found, outlook)


def _outlook(differences: Sequence[float], found: Interval, bound: float) -> str:
    """Return what pairs with these differences would show, if one measure is compared."""
    if found.is_inside(bound):
        return f"within {bound:g}"
    is_shown = found.is_beyond(bound) and sign_flip_p(differences) <= SIGNIFICANCE
    return f"beyond {bound:g}" if is_shown else f"undetermined at {bound:g}"
