"""``lagbench history``: cells and runs over time, and where a cell changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagbench.cli.options import JsonOption, refuse
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.core.compare.cell_history import CellHistory, HistoryRow
    from lagbench.core.measures.model import NamedMeasure

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
    as_json: JsonOption = False,
) -> int:
    """List the cells that were run; with CELL its runs, and where it changed without a reason."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.core.compare.cell_history import by_cell, cell_history
    from lagbench.results.history import rebuild_history, whole_history

    console = Terminal(stderr=as_json)
    if rebuild:
        made = rebuild_history(runs_root())
        deleted = f"{made.without_folder} of them without a folder any more"
        console.say(f"history: {made.lines} runs, {deleted}")
        for problem in made.left_out:
            console.say(f"left out: {problem}")
        if as_json:
            print_json(made._asdict())
        return ExitCode.PASS
    rows, left_out = whole_history(runs_root())
    for problem in left_out:
        console.say(f"left out: {problem}")
    cells = list(by_cell(rows).values())
    named = [] if cell is None else _named(cell, cells)
    if as_json:
        one = [_document(cell_history(of_cell), of_cell) for of_cell in named]
        print_json([_line(of_cell) for of_cell in cells] if cell is None else one)
        return ExitCode.PASS
    for of_cell in named:
        _print_cell(console, cell_history(of_cell), of_cell)
    if cell is None:
        _print_cells(console, cells)
    if cell is None and (without := sum(row.cell is None for row in rows)):
        console.say(f"runs without a readable cell: {without}")
    return ExitCode.PASS


def _line(of_cell: Sequence[HistoryRow]) -> dict[str, Any]:
    newest = of_cell[-1]
    named = {"cell": newest.cell_name, "digest": newest.cell, "runs": len(of_cell)}
    return {**named, "newest_run": newest.run_id, **_of_run(newest)}


def _of_run(row: HistoryRow) -> dict[str, Any]:
    from lagbench.cli.run_document import began

    return {"began": began(row.created_at), "verdict": row.verdict}


def _document(history: CellHistory, rows: Sequence[HistoryRow]) -> dict[str, Any]:
    of_a_run = {"run_id", "has_measured", "measures"}
    runs = [{**_of_run(row), **row.model_dump(include=of_a_run)} for row in rows]
    named = {"cell": history.name, "digest": history.cell, "runs": runs}
    return {**named, "segments": history.segments, "left_out": history.left_out}


def _named(cell: str, every: Sequence[list[HistoryRow]]) -> list[list[HistoryRow]]:
    """Return the cells with that name or digest."""
    found = [
        rows
        for rows in every
        if f"{rows[-1].cell_name}/".startswith(f"{cell}/")
        or (len(cell) >= _DIGEST and str(rows[-1].cell).startswith(cell))
    ]
    if not found:
        names = ", ".join(sorted({rows[-1].cell_name for rows in every}))
        allowed = f"one of {names}" if names else "a cell; no run has ended yet"
        refuse("cell", cell, allowed, where="history")
    return found


def _print_cells(console: Terminal, cells: Sequence[list[HistoryRow]]) -> None:
    from lagbench.report.page import instant

    if not cells:
        console.say("no runs yet: lagbench run hello")
        return
    rows = []
    for of_cell in cells:
        newest = of_cell[-1]
        cell = (newest.cell_name, str(newest.cell)[:_DIGEST], str(len(of_cell)))
        rows.append((*cell, newest.run_id, instant(newest.created_at), newest.verdict_text))
    console.table(("cell", "digest", "runs", "newest run", "began", "verdict"), rows)


def _print_cell(console: Terminal, found: CellHistory, rows: Sequence[HistoryRow]) -> None:
    from lagbench.core.measures.measures import NAMED
    from lagbench.report.page import instant

    by_id = {row.run_id: row for row in rows}
    console.say(f"{found.name} ({found.cell[:_DIGEST]}): {len(rows)} runs")
    for segment in found.segments:
        for reason in segment.began_because:
            console.say(f"  from {segment.run_ids[0]} on: {reason}")
        lines = []
        for run_id in segment.run_ids:
            row = by_id[run_id]
            values = (_value(row, NAMED[name]) for name in _SHOWN)
            lines.append((run_id, instant(row.created_at), row.verdict_text, *values))
        headings = ("run", "began", "verdict", *(NAMED[name].heading for name in _SHOWN))
        console.table(headings, lines)
        if any(row.residual(name) is not None for row in rows for name in _SHOWN):
            console.say("  in brackets: measured - predicted")
        for change in segment.changes:
            console.say(f"  {change.text}")
        if not segment.changes:
            console.say("  no change point")
    if found.left_out:
        console.say(f"  left out, no usable verdict: {', '.join(found.left_out)}")


def _value(row: HistoryRow, of: NamedMeasure) -> str:
    """Return the measured value, and how far it is from the predicted one."""
    residual, text = row.residual(of.name), of.number(row.measures.get(of.name))
    return text if residual is None else f"{text} ({of.signed(residual)})"
