"""Show the result of an experiment: its rows for the terminal, and the page ``result.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lagbench.core.compare.experiment import Experiment, Schedule
from lagbench.core.compare.experiment_result import (
    CellComparison,
    ExperimentResult,
    bounds_of,
    measured_names,
)
from lagbench.core.compare.noise_floor import NoiseFloor
from lagbench.core.compare.pair_statistics import Interval, sign_flip_p
from lagbench.core.compare.pairs import Difference
from lagbench.core.compare.shown_claims import ShownValue
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


def _is_unknown(found: Difference) -> bool:
    means = (found.mean_first, found.mean_second)
    return found.verdict == "listed" and means == (None, None)


def difference_row(found: Difference, noise: NoiseFloor | None) -> tuple[str, ...]:
    """Return one measure's row; a dash where there is no value."""
    floor = None if noise is None else noise.widths.get(found.name)
    change = found.change(found.difference)
    if found.low is not None and found.high is not None:
        change += f" ({found.change(found.low)} to {found.change(found.high)})"
    return (
        found.heading,
        found.number(found.mean_first),
        found.number(found.mean_second),
        change,
        _within(found, floor),
        _within(found, found.bound),
        _UNKNOWN if found.holm_p is None else f"{found.holm_p:.2g}",
        found.verdict,
    )


def _within(found: Difference, width: float | None) -> str:
    return _UNKNOWN if width is None else f"±{found.number(width)}"


def shown_row(found: ShownValue) -> tuple[str, ...]:
    """Return the row of a claim that needs no test; a dash where there is no value."""
    measure, count = NAMED[found.name], found.steps
    values = ", ".join(measure.number(value) for value in found.values)
    if count is None:
        return (found.cell, measure.heading, found.expected, values, found.verdict)
    every = count.met + count.missed + count.undetermined
    said = f"{count.met} of {every} steps, {count.missed} not, {count.undetermined} undetermined"
    return (found.cell, measure.heading, f"{found.expected} in each step", said, found.verdict)


def as_markdown(result: ExperimentResult, figure: str | None = None) -> str:
    """Return the page: question, differences, every run, notes; ``figure``: a file beside it."""
    return "\n".join(_lines(result, figure)) + "\n"


def _lines(result: ExperimentResult, figure: str | None) -> Iterator[str]:
    yield from (f"# {result.title}", "", result.question, "")
    pairs = "pair" if result.pairs == 1 else "pairs"
    yield (
        f"Experiment `{result.experiment}`: {result.pairs} {pairs} on `{result.scenario}`, target "
        f"{result.target}, order drawn by seed {result.order_seed}."
    )
    if figure is not None:
        yield from ("", f"![Values by cell]({figure})")
    if result.kind == "noise floor":
        yield from ("", "Both cells are the same: every difference is noise.")
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
    yield from ("", "## Notes", "", *(f"* {note}" for note in result.notes))


class ComparisonTable(NamedTuple):
    """One cell against another as a table, and in sentences."""

    title: str
    headings: list[str]
    rows: list[tuple[str, ...]]
    sentences: list[str]

    @classmethod
    def of(cls, one: CellComparison, noise: NoiseFloor | None) -> ComparisonTable:
        """Return the rows that were measured, those with a verdict first, and why pairs lack."""
        shown = [found for found in one.differences if not _is_unknown(found)]
        shown.sort(key=lambda found: found.verdict == "listed")
        unknown = ", ".join(found.title for found in one.differences if _is_unknown(found))
        return cls(
            f"{one.second} minus {one.first}, {len(one.pairs)} pairs",
            [text.format(first=one.first, second=one.second) for text in HEADINGS],
            [difference_row(found, noise) for found in shown],
            [
                *(f"{found.title}: {found.text}" for found in tested(one.differences)),
                *([f"not measured in these cells: {unknown}"] if unknown else []),
                *(f"left out: {reason}" for reason in one.left_out),
            ],
        )


def comparison_lines(comparison: CellComparison, noise: NoiseFloor | None) -> Iterator[str]:
    """Yield the section of a comparison, as Markdown."""
    table = ComparisonTable.of(comparison, noise)
    yield from _section(table.title, table.headings)
    yield from (*map(_row, table.rows), "", *(f"* {sentence}" for sentence in table.sentences))


def _section(title: str, headings: Sequence[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", _row(headings), _row(["---"] * len(headings)))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


Simulated = Mapping[tuple[int, str], SimulationMeasures]
"""The simulated runs by pair and cell."""

PREDICTED_HEADINGS = ("measure", "cell", "in each pair", "difference (95 % interval)", "bound")


def predicted_rows(
    experiment: Experiment, schedule: Schedule, simulated: Simulated
) -> Iterator[tuple[str, ...]]:
    """Yield a row for each cell and each measure, compared or shown, that the simulator has."""
    for name in measured_names(experiment):
        if name in SimulationMeasures.__slots__:
            yield from _of_measure(name, experiment, schedule, simulated)


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
) -> Iterator[tuple[str, ...]]:
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
        change, outlook = "", "" if expected is None else f"expected {expected.text}"
        if found is not None and bound is not None:
            width = bound.width(sum(a for a, _ in known) / len(known))
            outlook = _outlook(differences, found, width)
            mean, low, high = (f"{value:+,.1f}" for value in (found.mean, found.low, found.high))
            change = f"{mean} ({low} to {high})"
        shown = ", ".join(map(NAMED[name].number, values))
        yield NAMED[name].heading, cell.name, shown, change, outlook


def _outlook(differences: Sequence[float], found: Interval, bound: float) -> str:
    """Return what pairs with these differences would show, if one measure is compared."""
    if found.is_inside(bound):
        return f"within {bound:g}"
    is_shown = found.is_beyond(bound) and sign_flip_p(differences) <= SIGNIFICANCE
    return f"beyond {bound:g}" if is_shown else f"undetermined at {bound:g}"
