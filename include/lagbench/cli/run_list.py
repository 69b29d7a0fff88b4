"""Print the list of runs as a terminal table that never truncates a run id."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from lagbench.adapters.runs.run_folder import RunSummary
from lagbench.cli.wide_table import print_whole, width_of
from lagbench.report.page import instant

_COLUMNS = ("run", "verdict", "policy", "began", "scenario", "seed", "fidelity")
_LEAST_COLUMNS = 2
"""Run and verdict are always shown; the others, from the left, if there is room."""


def print_runs(console: Console, summaries: Sequence[RunSummary]) -> None:
    """Print a line for each run; a narrow terminal gets fewer columns and a note.

    A file or a pipe gets all columns, whatever its assumed width.
    """
    if not summaries:
        console.print("no runs yet: make rehearse")
        return
    count = len(_COLUMNS)
    while (
        console.is_terminal
        and count > _LEAST_COLUMNS
        and width_of(console, _table(summaries, count)) > console.width
    ):
        count -= 1
    table = _table(summaries, count)
    wide_enough = width_of(console, _table(summaries, len(_COLUMNS)))
    print_whole(console, table)
    if count < len(_COLUMNS):
        console.print(f"{', '.join(_COLUMNS[count:])}: in {wide_enough} columns", style="dim")


def _table(summaries: Sequence[RunSummary], columns: int) -> Table:
    table = Table(box=None)
    for heading in _COLUMNS[:columns]:
        table.add_column(heading, no_wrap=True)
    for run in summaries:
        began = instant(run.created_at)
        cells = (
            run.run_id, run.verdict, run.policy, began, run.scenario, run.seed, run.fidelity
        )  # fmt: skip
        table.add_row(*("–" if cell is None else str(cell) for cell in cells[:columns]))
    return table
