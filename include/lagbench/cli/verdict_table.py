"""The verdict of a run as a terminal table, with the accounting line and where the report is."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lagbench.adapters.run_folder import RunFolder

_MARKS = {
    "pass": ("✓", "green"),
    "fail": ("✗", "red"),
    "undetermined": ("?", "yellow"),
    "not_judged": ("·", "dim"),
}


def print_verdict(console: Console, folder: RunFolder) -> None:
    """Print each SLO with threshold, value and reason, then the accounting and the run folder."""
    verdict = folder.read_json("verdict.json")
    table = Table(title=f"verdict of {folder.path.name}", title_justify="left", box=None)
    table.add_column("")
    table.add_column("SLO", no_wrap=True)
    table.add_column("threshold", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("why")
    for slo in verdict["slos"]:
        mark, colour = _MARKS[slo["status"]]
        value = slo["value"] if slo["value"] is not None else "–"
        if isinstance(value, float):
            value = f"{value:,.1f}"
        table.add_row(
            Text(mark, style=colour),
            slo["title"],
            slo["threshold"],
            f"{value} {slo['unit']}".strip(),
            Text(slo["reason"], style=colour if slo["status"] in ("fail", "undetermined") else ""),
        )
    console.print(table)
    accounting = folder.path / "accounting.json"
    if accounting.exists():
        _print_accounting(console, folder)
    mark, colour = _MARKS[verdict["status"]]
    console.print(Text(f"{mark} {verdict['status'].upper()}", style=f"bold {colour}"))
    for reason in verdict["reasons"]:
        console.print(f"  {reason}", highlight=False, markup=False)
    console.print(f"report: {folder.path / 'report.html'}", highlight=False, soft_wrap=True)


def _print_accounting(console: Console, folder: RunFolder) -> None:
    counts = folder.read_json("accounting.json")
    names = ("produced_acked", "in_log", "processed_distinct", "lost", "duplicated", "reordered")
    cells = [f"{name.replace('_', ' ')} {_count(counts.get(name))}" for name in names]
    console.print(f"accounting: {', '.join(cells)}", highlight=False)


def _count(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
