"""The figures as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.figures import Figure

_STYLES = {"ok": "green", "missed": "red", "failed": "bold red", "not measured": "yellow", "": ""}

# A tenth of a core in the background is usual; half of one takes a share of every figure here.
_CALM_LOAD = 0.5


def print_machine(console: Console, machine: Mapping[str, str | float | int]) -> None:
    """Print the line that says what the figures belong to."""
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()), highlight=False)
    if float(machine["load_1_minute"]) > _CALM_LOAD:
        console.print("[yellow]The machine is busy with other work: the figures say less.[/]")


def print_figures(console: Console, name: str, figures: Sequence[Figure], seconds: float) -> None:
    """Print one measurement's figures."""
    table = Table(title=f"{name} ({seconds:.0f} s)", title_justify="left")
    for heading in ("figure", "value", "unit", "aim", "", "note"):
        table.add_column(
            heading, justify="right" if heading == "value" else "left", overflow="fold"
        )
    for figure in figures:
        aim = f"{figure.aim.sense} {figure.aim.bound:,.10g}" if figure.aim else ""
        style = _STYLES[figure.state]
        state = f"[{style}]{figure.state}[/]" if style else ""
        table.add_row(figure.name, shown(figure.value), figure.unit, aim, state, figure.note)
    console.print(table)


def as_json(
    machine: Mapping[str, str | float | int],
    scale: float,
    figures: Mapping[str, Sequence[Figure]],
) -> dict[str, Any]:
    """Return everything as plain data."""
    return {
        "machine": dict(machine),
        "scale": scale,
        "figures": [
            {
                "measurement": name,
                "figure": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "aim": f"{figure.aim.sense} {figure.aim.bound:.10g}" if figure.aim else None,
                "state": figure.state or None,
                "note": figure.note,
            }
            for name, measured in figures.items()
            for figure in measured
        ],
    }


def shown(value: float | None) -> str:
    """Return a value with three digits that say something."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
