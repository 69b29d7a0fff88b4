"""Print the nightly gate's findings on a run as terminal tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare import ComparedMeasure, Comparison
from lagbench.results.baseline import read_baseline
from lagbench.results.gate import read_record

_COLOURS = {
    "baseline": "green",
    "within": "green",
    "regressed": "red",
    "undetermined": "yellow",
    "not_compared": "dim",
}


def print_comparison(console: Console, folder: RunFolder) -> None:
    """Compare a rehearsal with its baseline and the last night; print nothing for other runs."""
    record = read_record(folder)
    if record is None:
        return
    for name, found in record.comparisons:
        console.print(_table(f"against {name} {found.reference_run_id}", found))
    colour = _COLOURS[record.status]
    console.print(Text(f"gate: {record.status.upper()}", style=f"bold {colour}"))
    for reason in record.reasons:
        console.print(f"  {reason}", highlight=False, markup=False, soft_wrap=True)
    for note in record.notes:
        console.print(f"  note: {note}", highlight=False, markup=False, soft_wrap=True)
    baseline = read_baseline(folder)
    if baseline is not None and baseline.reason == "accepted":
        console.print("  this run was accepted as the baseline of its cell", highlight=False)
    elif record.status in ("regressed", "undetermined"):
        console.print(
            f"  accept it: lagbench baseline {record.run_id}", highlight=False, soft_wrap=True
        )


def _table(title: str, comparison: Comparison) -> Table:
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("measure", "reference", "at most", "value", ""):
        is_number = heading in ("reference", "at most", "value")
        is_title = heading == "measure"  # long titles go over two lines
        table.add_column(heading, no_wrap=not is_title, justify="right" if is_number else "left")
    for measure in comparison.measures:
        said = Text(_said(measure), style=_COLOURS[measure.status])
        table.add_row(measure.heading, *measure.numbers, said)
    return table


def _said(measure: ComparedMeasure) -> str:
    return measure.status.replace("_", " ")
