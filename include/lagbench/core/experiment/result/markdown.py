"""Show the result of an experiment: its rows for the terminal, and the page ``result.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lagbench.core.compare.noise_floor import NoiseFloor
from lagbench.core.compare.pairs import Difference
from lagbench.core.experiment.result.experiment_result import (
    CellComparison,
    ExperimentResult,
    ShownValue,
)
from lagbench.core.measures.registry import NAMED

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
        yield from _comparison(comparison, result)
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


def _comparison(comparison: CellComparison, result: ExperimentResult) -> Iterator[str]:
    title = f"{comparison.second} minus {comparison.first}, {len(comparison.pairs)} pairs"
    headings = [
        heading.format(first=comparison.first, second=comparison.second) for heading in HEADINGS
    ]
    yield from _section(title, headings)
    for found in in_order(comparison.differences):
        yield _row(difference_row(found, result.noise))
    yield ""
    yield from (f"* {found.title}: {found.text}" for found in tested(comparison.differences))
    unknown = not_measured(comparison.differences)
    yield from () if unknown is None else (f"* {unknown}",)
    yield from (f"* left out: {reason}" for reason in comparison.left_out)


def _section(title: str, headings: Sequence[str]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield _row(headings)
    yield _row(["---"] * len(headings))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
