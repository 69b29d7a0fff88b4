"""Say what was seen of a run that ended without a verdict, from what it wrote while it went."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
from markupsafe import Markup

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog_files import from_home
from lagbench.core.live.live_line import (
    LiveCell,
    LiveLine,
    LivePhase,
    LiveSlo,
    SloStanding,
    decode_line,
)
from lagbench.core.live.run_state import state_of
from lagbench.embedded.kept_log import how_to_account
from lagbench.programs.live.run_follower import PhaseLog
from lagbench.project import state_dir
from lagbench.report.page import START, environment, inline, scripts, styles
from lagbench.report.series import in_a_script


@dataclass(slots=True)
class StoppedRun:
    """The course of a run by its live lines and phases; None: it was never reported."""

    run_id: str
    remedy: str
    is_accounted: bool = False
    phases: list[LivePhase] = field(default_factory=list)
    cell: LiveCell | None = None
    lines: list[LiveLine] = field(default_factory=list)
    standing: dict[str, SloStanding] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[str, LivePhase, LivePhase | None]]:
        """Return the state that each phase began, and its begin and end; None: it did not end."""
        begins = [phase for phase in self.phases if phase.state == "started"]
        ends = [phase for phase in self.phases if phase.state != "started"]
        return [
            (
                self._state(one),
                one,
                next((e for e in ends if e.name == one.name and e.at >= one.at), None),
            )
            for one in begins
        ]

    @property
    def second(self) -> float | None:
        """The last second that was reported, since the first spike; None: there was no stream."""
        second = _last(line.second for line in self.lines)
        return None if second is None else second - self._origin

    @property
    def text(self) -> str:
        """Return how far it came, in one sentence."""
        where = f" ({self._state(self.phases[-1])})" if self.phases else ""
        at = "before its stream began" if self.second is None else f"at {self.second:+.0f} s"
        left = "accounted for, not judged" if self.is_accounted else "not accounted for"
        return f"stopped {at}{where}, {left}"

    @property
    def seen(self) -> list[tuple[str, float | None, str]]:
        """Return what the recorder saw until then: name, value and unit."""
        ready = [line.replicas[1] for line in self.lines if line.replicas is not None]
        lag = [line.lag for line in self.lines if line.lag is not None]
        waits = [line.time_lag_seconds or 0.0 for line in self.lines]
        return [
            ("peak lag", max(lag, default=None), "messages"),
            ("lag at the end", _last(lag), "messages"),
            ("oldest message", max(waits, default=0.0) or None, "s"),
            ("most Ready replicas", max(ready, default=None), ""),
        ]

    @property
    def slos(self) -> list[tuple[LiveSlo, float | None, str]]:
        """Return the SLOs of which something was seen: their value and standing so far."""
        known = [] if self.cell is None else self.cell.slos
        found = [(slo, *self.standing.get(slo.name, (None, "open"))) for slo in known]
        return [row for row in found if row[2] in ("holds", "broken")]

    def data(self) -> str:
        """Return the charts' data as JSON, as ``series.data_block`` has it for a whole run."""
        spikes = self.cell.spikes if self.cell and self.second is not None else []
        begun = next((line for line in self.lines if line.second is not None), self.lines[0])
        origin = begun.at - ((begun.second or self._origin) - self._origin) * 1e9
        at = [round((line.at - origin) / 1e6) for line in self.lines]
        replicas = [line.replicas or (None, None) for line in self.lines]
        columns: dict[str, dict[str, list[Any]]] = {
            "lag": {
                "total": [line.lag for line in self.lines],
                "hottest": [_most(line.lag_by_partition) for line in self.lines],
            },
            "replicas": {
                "desired": [desired for desired, _ in replicas],
                "ready": [ready for _, ready in replicas],
            },
            "rates": {
                "offered": [line.planned_per_second for line in self.lines],
                "consumed": [line.processed_per_second for line in self.lines],
            },
        }
        ms = [after - before for before, after in pairwise([0, *at])]
        windows = [(spike.start_seconds, spike.end_seconds) for spike in spikes]
        shown = [[round((second - self._origin) * 1e3) for second in window] for window in windows]
        block = {
            "origin": {"name": "the spike" if spikes else "the first line"},
            "tables": {name: {"ms": ms, "columns": them} for name, them in columns.items()},
            "pods": [],
            "events": {"phases": [], "actions": [], "changes": []}
            | {"spikes": [{"name": "spike", "start": a, "end": b} for a, b in shown]},
        }
        return in_a_script(block)

    @property
    def _origin(self) -> float:
        return self.cell.spikes[0].start_seconds if self.cell and self.cell.spikes else 0.0

    def _state(self, phase: LivePhase) -> str:
        """Return the state that a phase began; under load that of the stream's last second then."""
        at = [line.second for line in self.lines if line.at <= phase.at or phase is self.phases[-1]]
        if self.cell is None:
            return state_of(phase.name)
        planned, spikes = self.cell.planned_seconds, self.cell.spikes
        return state_of(phase.name, second=_last(at), spikes=spikes, planned_seconds=planned)


def stopped_run(folder: RunFolder) -> StoppedRun:
    """Read how far a run came, from the lines that it wrote while it was in progress."""
    remedy, is_accounted = how_to_account(state_dir(), folder), folder.accounting.exists()
    if is_accounted:
        remedy = f"lagbench report {folder.reference} judges it"
    elif not remedy and folder.policy.exists():
        files = from_home(folder.scenario), "--policy", from_home(folder.policy)
        remedy = f"to repeat it: {shlex.join(['lagbench', 'run', *files])}"
    found = StoppedRun(folder.run_id, remedy.removeprefix(". "), is_accounted)
    found.phases = [one for one in PhaseLog(folder.phases).news() if one.state != "progress"]
    for text in folder.live.read_bytes().splitlines() if folder.live.exists() else ():
        try:
            line = decode_line(text)
        except msgspec.DecodeError:  # cut off in mid-write
            continue
        if line.run is not None:  # of another follower: what was before is not known to it
            found.cell, found.standing = line.run, {}
        found.lines.append(line)
        found.standing |= line.standing
    return found


def write_stopped(folder: RunFolder) -> StoppedRun:
    """Write ``report.html`` of a run that ended without a verdict; return how far it came.

    No verdict of before stays, nor a page of one.
    """
    run = stopped_run(folder)
    for group in folder.groups:
        for name in (group.verdict, group.measures, group.junit, group.report):
            name.unlink(missing_ok=True)
    page = environment().get_template("stopped.html.j2")
    data = Markup(run.data() if run.lines else "")  # noqa: S704 - JSON that no text can end
    looks = inline(f"{scripts()}\n{START}", styles())
    folder.write_text(folder.report, page.render(run=run, data=data, **looks))
    return run


def _most(lags: Sequence[int | None] | None) -> int | None:
    """Return the lag of the hottest partition; None: that of one is not known."""
    return None if not lags or None in lags else max(lag for lag in lags if lag is not None)


def _last(values: Any) -> Any:
    """Return the last value that is known; None: none is."""
    return next((value for value in reversed(list(values)) if value is not None), None)
