"""Show the progress of a run on the terminal: phase, lag, replicas, rates, SLOs so far."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lagbench.cli.run_view import RunView
from lagbench.core.live import SloStanding

_BARS = "▁▂▃▄▅▆▇█"
_MISSING = "·"
PLAIN_LINE_EVERY_SECONDS = 5.0
_MARKS = {
    "holds": ("✓", "green"),
    "broken": ("✗", "red"),
    "open": ("…", "dim"),
    "at_end": ("·", "dim"),
}
_WORDS = {"holds": "holds so far", "broken": "broken", "open": "open", "at_end": "at the end"}


class ProgressDisplay:
    """Draws a run: a live panel on a terminal, a line every 5 s elsewhere."""

    def __init__(self, console: Console, run_id: str) -> None:
        """Prepare a display for one run."""
        self._console, self._run_id = console, run_id
        self._began = time.monotonic()
        self._last_line = -PLAIN_LINE_EVERY_SECONDS
        self._live: Live | None = None
        self._last_phase = ""

    def __enter__(self) -> Self:
        """Start drawing."""
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()

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
            line = f"{elapsed:6.0f} s  {view.phase:<22} {view.progress or cells}"
            self._console.print(line, highlight=False, soft_wrap=True)


def panel(run_id: str, view: RunView, elapsed: float) -> Table:
    """Return the live view as a table of names and values."""
    table = Table(title=f"rehearsal {run_id}", show_header=False)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column()
    further = view.progress or _spike(view)
    table.add_row("phase", Text(f"{view.phase}  {further}".strip(), style="cyan"))
    for name, value in _cells(view):
        table.add_row(name, value)
    newest = view.newest
    if newest is not None and newest.time_lag_seconds is not None:
        table.add_row("time lag", f"{newest.time_lag_seconds:,.1f} s")
    table.add_row("lag, last lines", sparkline(view.lag_history))
    table.add_row("ready, last lines", sparkline(view.ready_history))
    for slo in () if view.cell is None else view.cell.slos:
        standing = view.standing.get(slo.name)
        if standing is not None and standing[1] != "at_end":
            table.add_row(slo.title, _standing(standing, slo.limit, slo.unit))
    if view.cell is not None:
        left = [slo for slo in view.cell.slos if view.standing.get(slo.name, _OPEN)[1] == "at_end"]
        table.add_row("known at the end", f"{len(left)} of {len(view.cell.slos)} SLOs")
    table.add_row("to come", _to_come(view))
    table.add_row("elapsed", f"{elapsed:.0f} s")
    if view.verdict is not None:
        of_both = ", both groups" if view.cell is not None and view.cell.group == "first" else ""
        table.add_row("verdict", Text(f"{view.verdict}{of_both}", style="bold"))
    return table


def sparkline(values: Iterable[int | None]) -> str:
    """Return the values as a row of bars, scaled to their maximum; a dot where one is missing."""
    shown = list(values)
    top = max((value for value in shown if value is not None), default=0)
    return "".join(_MISSING if value is None else _bar(value, top) for value in shown)


def _bar(value: int, top: int) -> str:
    return _BARS[0] if top <= 0 else _BARS[min(7, value * 8 // (top + 1))]


_OPEN: SloStanding = (None, "open")


def _standing(standing: SloStanding, limit: str, unit: str) -> Text:
    value, state = standing
    mark, colour = _MARKS[state]
    shown = "" if value is None else f"{value:g} {unit}".strip() + ", "
    return Text(f"{mark} {shown}{_WORDS[state]} ({limit})", style=colour)


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
    line = view.newest
    replicas = None if line is None else line.replicas
    group = None if view.cell is None else view.cell.group
    return [
        *([] if group is None else [("group", f"{group} of two")]),
        ("lag", _number(None if line is None else line.lag)),
        ("replicas", "–" if replicas is None else f"{replicas[1]}/{replicas[0]} ready"),
        ("offered", _rate(None if line is None else line.planned_per_second)),
        ("consumed", _rate(None if line is None else line.processed_per_second)),
    ]


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}/s"
