"""``lagbench history``: cells and runs over time, and where a cell changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from lagbench.cli.terminal import Terminal
from lagbench.cli.wide_table import print_whole
from lagbench.errors import ExitCode, WrongInput

if TYPE_CHECKING:
    from lagbench.core.compare.history import CellHistory, HistoryRow

_SHOWN = ("reaction_seconds", "peak_lag_records", "drain_seconds", "flips", "pod_minutes")
_DIGEST = 8
"""Digits of a cell's digest that are shown: two files of one name are two cells."""


def history(
    cell: Annotated[
        str | None,
        typer.Argument(
            help="SCENARIO, SCENARIO/POLICY, SCENARIO/POLICY/SEED, or the digest of a cell.",
            metavar="CELL",
        ),
    ] = None,
    *,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make it again from the run folders.")
    ] = False,
) -> int:
    """List the cells that were run; with CELL its runs, and where it changed without a reason."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.core.compare.history import by_cell, cell_history
    from lagbench.results.history import read_history, rebuild_history

    console = Terminal()
    if rebuild:
        made = rebuild_history(runs_root())
        deleted = f"{made.without_folder} of them without a folder any more"
        _say(console, f"history: {made.lines} runs, {deleted}")
        for problem in made.left_out:
            _say(console, f"left out: {problem}")
        return ExitCode.PASS
    rows = read_history(runs_root())
    cells = list(by_cell(rows).values())
    if cell is None:
        _print_cells(console, cells)
        without = sum(row.cell is None for row in rows)
        if without:
            _say(console, f"runs without a readable cell: {without}")
        return ExitCode.PASS
    for of_cell in _named(cell, cells):
        _print_cell(console, cell_history(of_cell), of_cell)
    return ExitCode.PASS


def _named(cell: str, every: Sequence[list[HistoryRow]]) -> list[list[HistoryRow]]:
    """Return the cells with that name or digest.

    :raises WrongInput: there is none.
    """
    found = [
        rows
        for rows in every
        if f"{rows[-1].cell_name}/".startswith(f"{cell}/")
        or (len(cell) >= _DIGEST and str(rows[-1].cell).startswith(cell))
    ]
    if not found:
        names = sorted({rows[-1].cell_name for rows in every})
        raise WrongInput(
            where="history",
            field="cell",
            value=cell,
            allowed="one of " + ", ".join(names) if names else "a cell; no run has ended yet",
        )
    return found


def _print_cells(console: Console, cells: Sequence[list[HistoryRow]]) -> None:
    from lagbench.report.page import instant

    if not cells:
        _say(console, "no runs yet: make rehearse")
        return
    table = _table("cell", "digest", "runs", "newest run", "began", "verdict")
    for rows in cells:
        newest = rows[-1]
        began = instant(newest.created_at)
        table.add_row(
            newest.cell_name,
            str(newest.cell)[:_DIGEST],
            str(len(rows)),
            newest.run_id,
            began,
            newest.verdict,
        )
    print_whole(console, table)


def _print_cell(console: Console, found: CellHistory, rows: Sequence[HistoryRow]) -> None:
    from lagbench.core.measures import NAMED
    from lagbench.report.page import instant

    by_id = {row.run_id: row for row in rows}
    _say(console, f"{found.name} ({found.cell[:_DIGEST]}): {len(rows)} runs")
    for segment in found.segments:
        for reason in segment.began_because:
            _say(console, f"  from {segment.run_ids[0]} on: {reason}")
        table = _table("run", "began", "verdict", *(NAMED[name].heading for name in _SHOWN))
        for run_id in segment.run_ids:
            row = by_id[run_id]
            values = (NAMED[name].number(row.measures.get(name)) for name in _SHOWN)
            table.add_row(run_id, instant(row.created_at), row.verdict, *values)
        print_whole(console, table)
        for change in segment.changes:
            _say(console, f"  {change.text}")
        if not segment.changes:
            _say(console, "  no change point")
    if found.left_out:
        _say(console, f"  left out, no usable verdict: {', '.join(found.left_out)}")


def _table(*headings: str) -> Table:
    table = Table(box=None)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
