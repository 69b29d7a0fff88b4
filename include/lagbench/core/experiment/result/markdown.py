"""Write the result of an experiment as Markdown: ``result.md``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lagbench.core.experiment.result.experiment_result import (
    CellComparison,
    ExperimentResult,
    RunLine,
)
from lagbench.core.experiment.result.rows import (
    HEADINGS,
    SHOWN_HEADINGS,
    difference_row,
    in_order,
    not_measured,
    shown_row,
    tested,
)
from lagbench.core.measures import NAMED


def as_markdown(result: ExperimentResult, figure: str | None = None) -> str:
    """Return the result as a page: question, differences, every run, notes.

    :param figure: the file of the picture beside the page; None: there is none.
    """
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
    yield from _runs(result.runs)
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


def _runs(runs: Sequence[RunLine]) -> Iterator[str]:
    names = list(runs[0].values) if runs else []
    headings = ["pair", "cell", "seed", "HPA's sync, s", "verdict"]
    yield from _section(
        "Runs, in their order", [*headings, *(NAMED[name].heading for name in names), "run"]
    )
    for run in runs:
        phase = "–" if run.hpa_sync_at_seconds is None else f"{run.hpa_sync_at_seconds:.1f}"
        values = [NAMED[name].number(run.values[name]) for name in names]
        cells = (str(run.pair), run.cell, str(run.seed), phase, run.verdict, *values)
        yield _row((*cells, run.run_id or "–"))


def _section(title: str, headings: Sequence[str]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield _row(headings)
    yield _row(["---"] * len(headings))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
