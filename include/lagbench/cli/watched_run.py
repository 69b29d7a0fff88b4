"""Follow the files of a run in progress, its phases and its live lines, and draw them."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

import msgspec
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli.terminal import Terminal
from lagbench.core.live.live_line import (
    LiveCell,
    LiveLine,
    LivePhase,
    LiveSlo,
    SloStanding,
    decode_line,
)
from lagbench.core.live.run_state import state_of
from lagbench.programs.live.run_follower import LAST_PHASE, PhaseLog, is_followed

FOLLOWER_SECONDS, LOOK_SECONDS = 10.0, 0.1
YOUNG_SECONDS = 600.0
"""A run without a follower and younger than that may still bring its bench up."""
PLAIN_LINE_EVERY_SECONDS = 5.0
_BARS, _MISSING = "▁▂▃▄▅▆▇█", "·"
_STANDINGS = {
    "holds": ("✓", "green", "holds so far"),
    "broken": ("✗", "red", "broken"),
    "open": ("…", "dim", "open"),
    "at_end": ("·", "dim", "at the end"),
}


@dataclass(slots=True)
class RunView:
    """The newest figures; None if not reported (missing is not zero)."""

    phase: str = "starting"
    progress: str = ""  # how far the phase is, if it says so
    failures: list[str] = field(default_factory=list)
    cell: LiveCell | None = None
    newest: LiveLine | None = None
    standing: dict[str, SloStanding] = field(default_factory=dict)
    verdict: str | None = None
    lines: deque[LiveLine] = field(default_factory=lambda: deque(maxlen=60))

    def take_phase(self, phase: LivePhase) -> None:
        """Update with a phase of ``phases.jsonl``."""
        if phase.state == "started":
            self.phase, self.progress = phase.name, ""
        elif phase.state == "progress":
            self.progress = phase.detail
        elif phase.state == "failed":
            self.failures.append(f"{phase.name}: {phase.detail}")

    def take_line(self, line: LiveLine) -> None:
        """Update with a line of ``live.jsonl``."""
        if line.run is not None:  # another follower: it knows nothing of the one before
            self.cell, self.standing = line.run, {}
        self.newest = line
        self.standing |= line.standing
        self.verdict = line.verdict or self.verdict
        self.lines.append(line)

    @property
    def is_over(self) -> bool:
        """Return whether the last line has come."""
        return self.newest is not None and self.newest.is_last

    @property
    def state(self) -> str:
        """The state of the run, in words."""
        if self.cell is None:
            return state_of(self.phase)
        second = None if self.newest is None else self.newest.second
        spikes, planned = self.cell.spikes, self.cell.planned_seconds
        state = state_of(self.phase, second=second, spikes=spikes, planned_seconds=planned)
        told = "" if self.newest is None else self.newest.state or ""
        return told if told.startswith(f"{state}:") else state  # then it says what is waited for

    def seconds_until(self, end_seconds: float | None) -> float | None:
        """Return the time until a second of the stream, 0 after it; None: it is not known."""
        if end_seconds is None or self.newest is None or self.newest.second is None:
            return None
        return max(end_seconds - self.newest.second, 0.0)


class WatchedRun:
    """A run folder that fills; the folder itself may come later."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin at the first phase and the first line."""
        self.view = RunView()
        self._folder, self._phases, self._position = folder, PhaseLog(folder.phases), 0

    def await_follower(self) -> None:
        """Wait until the run's follower has ended, which follows the end of its Dag run at once."""
        gives_up_at = time.monotonic() + FOLLOWER_SECONDS
        while is_followed(self._folder.live) and time.monotonic() < gives_up_at:
            time.sleep(LOOK_SECONDS)

    def advance(self) -> None:
        """Bring the view up to what the files have now."""
        for phase in self._phases.news():
            self.view.take_phase(phase)
        with contextlib.suppress(FileNotFoundError), self._folder.live.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):  # an incomplete line: read it next time
                    break
                self._position += len(line)
                with contextlib.suppress(msgspec.DecodeError):  # of another version of lagbench
                    self.view.take_line(decode_line(line))


def is_in_progress(folder: RunFolder) -> bool:
    """Return whether a rehearsal has its follower, or may yet get it.

    One without lines may if it is young and nothing has ended it.
    """
    if is_followed(folder.live):
        return True
    if folder.live.exists() or folder.verdict.exists() or folder.report.exists():
        return False
    created_at = folder.summary().created_at
    if created_at is None or time.time() - created_at / 1e9 > YOUNG_SECONDS:
        return False
    watched = WatchedRun(folder)
    watched.advance()
    return not watched.view.failures and watched.view.phase != LAST_PHASE


class ProgressDisplay(ExitStack):
    """Draws a run: a live panel on a terminal, a line every 5 s elsewhere."""

    def __init__(
        self,
        console: Terminal,
        run_id: str,
        seconds: float | None = None,
        began: float | None = None,
    ) -> None:
        """Prepare a display for one run, predicted to take ``seconds`` from ``began`` on."""
        super().__init__()
        self._seconds = seconds
        self._console, self._run_id = console, run_id
        self._began = time.monotonic() if began is None else began
        self._last_line, self._last_phase = -PLAIN_LINE_EVERY_SECONDS, ""
        self._last_text, self._has_head = "", False
        self._live: Live | None = None

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
            self._live.update(panel(self._run_id, view, elapsed, self._seconds))
            return
        if view.cell is not None and not self._has_head:
            self._has_head = True
            cell, rest = view.cell, ""
            if cell.settled_seconds is not None:
                rest = f", replicas at rest after about {cell.settled_seconds:.0f} s as predicted"
            load = f"load for {cell.planned_seconds:.0f} s"
            self._console.say(f"{cell.scenario} with {cell.policy}: {load}{rest}")
        is_due = elapsed - self._last_line >= PLAIN_LINE_EVERY_SECONDS
        cells = "  ".join(f"{name} {value}" for name, value in _cells(view) if value != "–")
        is_told = ":" in view.state  # why nothing moves
        text = view.state if is_told else f"{view.state:<30} {view.progress or cells}".rstrip()
        if text != self._last_text and (is_due or view.phase != self._last_phase):
            self._last_line, self._last_phase, self._last_text = elapsed, view.phase, text
            self._console.say(f"{elapsed:6.0f} {_of_all(elapsed, self._seconds)}s  {text}")


def _of_all(elapsed: float, seconds: float | None) -> str:
    """Return how long all takes, as predicted; empty: that is not known, or over."""
    return "" if seconds is None or elapsed > seconds else f"of about {seconds:.0f} "


def panel(run_id: str, view: RunView, elapsed: float, seconds: float | None = None) -> Table:
    """Return the live view as a table of names and values."""
    cell, newest = view.cell, view.newest
    table = Table(title=f"rehearsal {run_id}", show_header=False)
    table.add_column(justify="right", style="bold", no_wrap=True)
    table.add_column()
    table.add_row("state", Text(f"{view.state}  {view.progress}".strip(), style="cyan"))
    for name, value in _cells(view):
        table.add_row(name, value)
    if newest is not None and newest.time_lag_seconds is not None:
        table.add_row("time lag", f"{newest.time_lag_seconds:,.1f} s")
    ready = [None if line.replicas is None else line.replicas[1] for line in view.lines]
    table.add_row("lag, last lines", sparkline(line.lag for line in view.lines))
    table.add_row("ready, last lines", sparkline(ready))
    if cell is not None:
        at_end = 0
        for slo in cell.slos:
            if slo.name not in view.standing:
                continue
            reached, standing = view.standing[slo.name]
            at_end += standing == "at_end"
            if standing != "at_end":
                table.add_row(slo.title, standing_text(slo, reached, standing))
        table.add_row("known at the end", f"{at_end} of {len(cell.slos)} SLOs")
    table.add_row("to come", _to_come(view))
    table.add_row("elapsed", f"{elapsed:.0f} {_of_all(elapsed, seconds)}s")
    if view.verdict is not None:
        of_both = ", both groups" if cell is not None and cell.group == "first" else ""
        table.add_row("verdict", Text(f"{view.verdict}{of_both}", style="bold"))
    return table


def standing_text(slo: LiveSlo, reached: float | None, standing: str) -> Text:
    """Return how an SLO stands, with the value so far and its limit."""
    mark, colour, word = _STANDINGS[standing]
    shown = "" if reached is None else f"{reached:g} {slo.unit}".strip() + ", "
    return Text(f"{mark} {shown}{word} ({slo.limit})", style=colour)


def sparkline(values: Iterable[int | None]) -> str:
    """Return the values as a row of bars, scaled to their maximum; a dot where one is missing."""
    shown = list(values)
    top = max((value for value in shown if value is not None), default=0)
    return "".join(
        _MISSING if value is None else _BARS[min(7, value * 8 // (top + 1)) if top > 0 else 0]
        for value in shown
    )


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
    line = view.newest or LiveLine(at=0)

    def number(value: float | None, unit: str = "") -> str:
        return "–" if value is None else f"{value:,.0f}{unit}"

    group = None if view.cell is None else view.cell.group
    replicas = line.replicas
    return [
        *([] if group is None else [("group", f"{group} of two")]),
        ("lag", number(line.lag)),
        ("replicas", "–" if replicas is None else f"{replicas[1]}/{replicas[0]} ready"),
        ("offered", number(line.planned_per_second, "/s")),
        ("consumed", number(line.processed_per_second, "/s")),
    ]
