"""A measured figure with its aim beside it, the table of them, and the machine they belong to."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal

import psutil
from rich.console import Console
from rich.table import Table

from lagbench.embedded.jars import BROKER, jar_paths
from lagbench.embedded.java import find_java

_PACKAGES = ("apache-airflow", "confluent-kafka", "pyspark", "pyarrow", "numpy")
_STYLES = {"ok": "green", "missed": "red", "failed": "bold red", "not measured": "yellow"}

# A tenth of a core in the background is usual; half of one takes a share of every figure here.
_CALM_LOAD = 0.5


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound that the figure should keep."""

    sense: Literal["at least", "at most"]
    bound: float

    def holds(self, value: float) -> bool:
        """Return whether ``value`` keeps the bound."""
        return value >= self.bound if self.sense == "at least" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Figure:
    """One number; ``value`` None where it could not be taken, for the reason in ``note``."""

    name: str
    value: float | None
    unit: str
    aim: Aim | None = None
    note: str = ""
    has_failed: bool = False

    @property
    def state(self) -> str:
        """Say how the figure stands against its aim; empty without one."""
        if self.has_failed:
            return "failed"
        if self.value is None:
            return "not measured"
        if self.aim is None:
            return ""
        return "ok" if self.aim.holds(self.value) else "missed"


def at_least(bound: float) -> Aim:
    """Return the aim of a figure that should be high."""
    return Aim("at least", bound)


def at_most(bound: float) -> Aim:
    """Return the aim of a figure that should be low."""
    return Aim("at most", bound)


def print_machine(console: Console) -> None:
    """Print cores, memory, load before the bench began, and versions."""
    broker = next(jar.stem for jar in jar_paths(BROKER) if jar.name.startswith("kafka_2"))
    load = os.getloadavg()[0]
    machine = {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 1024**3, 1),
        "load_1_minute": round(load, 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": find_java().version,
        "kafka": broker.rpartition("-")[2],
        **{name: version(name) for name in _PACKAGES},
    }
    console.print(", ".join(f"{key} {value}" for key, value in machine.items()), highlight=False)
    if load > _CALM_LOAD:
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
        state = f"[{_STYLES[figure.state]}]{figure.state}[/]" if figure.state else ""
        table.add_row(figure.name, _shown(figure.value), figure.unit, aim, state, figure.note)
    console.print(table)


def _shown(value: float | None) -> str:
    """Return a value with three digits that say something."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
