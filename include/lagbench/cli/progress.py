"""Show the progress of a run on the terminal: phase, lag, replicas, rates, SLOs so far."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Self

from rich.live import Live
from rich.table import Table
from rich.text import Text

from lagbench.cli.terminal import Terminal
from lagbench.cli.watched_run import RunView

_BARS = "▁▂▃▄▅▆▇█"
_MISSING = "·"
PLAIN_LINE_EVERY_SECONDS = 5.0
_STANDINGS = {
    "holds": ("✓", "green", "holds so far"),
    "broken": ("✗", "red", "broken"),
    "open": ("…", "dim", "open"),
    "at_end": ("·", "dim", "at the end"),
}


class ProgressDisplay(ExitStack):
    """Draws a run: a live panel on a terminal, a line every 5 s elsewhere."""

    def __init__(self, console: Terminal, run_id: str) -> None:
        """Prepare a display for one run."""
        super().__init__()
        self._console, self._run_id = console, run_id
        self._began = time.monotonic()
        self._last_line = -PLAIN_LINE_EVERY_SECONDS
        self._live: Live | None = None
        self._last_phase = ""

    def __enter__(self) -> Self:
        """Start drawing."""
        if self._console.is_terminal:
            live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live = self.enter_context(live)
        return self

    def show(self, view: RunView) -> None:
        """Draw what is known now."""
        elapsed = time.monotonic() - self._began
        if self._live is not None:
            self._live.update(panel(self._run_id, view, elapsed))
        elif (
            view.phase != self._last_phase or elapsed - self._last_line >= PLAIN_LINE_EVERY_SECONDS
        ):
            self._last_line, self._last_phase = elapsed, view.phase
            cells = "  ".join(f"{name} {value}" for name, value in _cells(view))
            self._console.say(f"{elapsed:6.0f} s  {view.phase:<22} {view.progress or cells}")


def panel(run_id: str, view: RunView, elapsed: float) -> Table:
    """Return the live view as a table of names and values."""
    cell, newest = view.cell, view.newest
    table = Table(title=f"rehearsal {run_id}", show_header=False)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column()
    further = view.progress or _spike(view)
    table.add_row("phase", Text(f"{view.phase}  {further}".strip(), style="cyan"))
    for name, value in _cells(view):
        table.add_row(name, value)
    if newest is not None and newest.time_lag_seconds is not None:
        table.add_row("time lag", f"{newest.time_lag_seconds:,.1f} s")
    table.add_row("lag, last lines", sparkline(view.lag_history))
    table.add_row("ready, last lines", sparkline(view.ready_history))
    at_end = 0
    for slo in () if cell is None else cell.slos:
        standing = view.standing.get(slo.name)
        at_end += standing is not None and standing[1] == "at_end"
        if standing is not None and standing[1] != "at_end":
            mark, colour, word = _STANDINGS[standing[1]]
            shown = "" if standing[0] is None else f"{standing[0]:g} {slo.unit}".strip() + ", "
            table.add_row(slo.title, Text(f"{mark} {shown}{word} ({slo.limit})", style=colour))
    if cell is not None:
        table.add_row("known at the end", f"{at_end} of {len(cell.slos)} SLOs")
    table.add_row("to come", _to_come(view))
    table.add_row("elapsed", f"{elapsed:.0f} s")
    if view.verdict is not None:
        of_both = ", both groups" if cell is not None and cell.group == "first" else ""
        table.add_row("verdict", Text(f"{view.verdict}{of_both}", style="bold"))
    return table


def sparkline(values: Iterable[int | None]) -> str:
    """Return the values as a row of bars, scaled to their maximum; a dot where one is missing."""
    shown = list(values)
    top = max((value for value in shown if value is not None), default=0)
    return "".join(
        _MISSING if value is None else _BARS[min(7, value * 8 // (top + 1)) if top > 0 else 0]
        for value in shown
    )


def _spike(view: RunView) -> str:
    """Return where in the load the run is; empty before the first spike."""
    if view.cell is None or view.newest is None or view.newest.second is None:
        return ""
    second = view.newest.second
    if any(spike.start_seconds <= second < spike.end_seconds for spike in view.cell.spikes):
        return "spike"
    return "after the spike" if any(s.end_seconds <= second for s in view.cell.spikes) else ""


def _to_come(view: RunView) -> str:
    if view.cell is None:
        return "–"
    load = view.seconds_until(view.cell.planned_seconds)
    settled = view.seconds_until(view.cell.settled_seconds)
    parts = [f"load ends in {load:.0f} s"] if load else []
    if settled:
        parts.append(f"replicas at rest in {settled:.0f} s as predicted")
    return ", ".join(parts) or "–"


def _cells(view: RunView) -> list[tuple[str, str]]:
    line, group = view.newest, None if view.cell is None else view.cell.group
    replicas = None if line is None else line.replicas

    def number(value: float | None, unit: str = "") -> str:
        return "–" if value is None else f"{value:,.0f}{unit}"

    return [
        *([] if group is None else [("group", f"{group} of two")]),
        ("lag", number(None if line is None else line.lag)),
        ("replicas", "–" if replicas is None else f"{replicas[1]}/{replicas[0]} ready"),
        ("offered", number(None if line is None else line.planned_per_second, "/s")),
        ("consumed", number(None if line is None else line.processed_per_second, "/s")),
    ]
