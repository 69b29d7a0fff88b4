"""The page of a run that ended without a verdict: how far it came, and what is left of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import msgspec
from markupsafe import Markup

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.line import LiveCell, LiveLine, LivePhase, decode_line
from lagbench.embedded.kept_log import how_to_account
from lagbench.project import state_dir
from lagbench.report.assets import content_security_policy, styles
from lagbench.report.page import environment


@dataclass(slots=True)
class StoppedRun:
    """The course of a run by its live lines and phases; None: it was never reported."""

    run_id: str
    phases: list[LivePhase]
    cell: LiveCell | None = None
    second: float | None = None
    lag: int | None = None
    replicas: tuple[int, int] | None = None
    standing: dict[str, tuple[float | None, str]] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[LivePhase, LivePhase | None]]:
        """Return the begin of each phase with its end; None: it did not end."""
        ends = [phase for phase in self.phases if phase.state != "started"]
        begins = [phase for phase in self.phases if phase.state == "started"]
        return [
            (begin, next((e for e in ends if e.name == begin.name and e.at >= begin.at), None))
            for begin in begins
        ]

    @property
    def text(self) -> str:
        """Return how far it came, in one sentence."""
        where = f" in {self.phases[-1].name}" if self.phases else ""
        at = "before its stream began" if self.second is None else f"at {self.second:.0f} s"
        return f"stopped {at}{where}, not accounted for"


def stopped_run(folder: RunFolder) -> StoppedRun:
    """Read how far a run came, from the lines that it wrote while it was in progress."""
    found = StoppedRun(folder.run_id, [])
    for text in _lines(folder, "phases.jsonl"):
        try:
            phase = msgspec.convert(json.loads(text), LivePhase)
        except (ValueError, msgspec.ValidationError):  # cut off in mid-write
            continue
        if phase.state != "progress":
            found.phases.append(phase)
    for text in _lines(folder, "live.jsonl"):
        try:
            _add(found, decode_line(text.encode()))
        except msgspec.DecodeError:
            continue
    return found


def write_stopped(folder: RunFolder) -> StoppedRun:
    """Write ``report.html`` of a run that ended without a verdict; return how far it came."""
    run, style = stopped_run(folder), styles()
    page = (
        environment()
        .get_template("stopped.html.j2")
        .render(
            run=run,
            remedy=how_to_account(state_dir(), folder).removeprefix(". "),
            style=Markup(style),  # noqa: S704 - ours
            content_security_policy=content_security_policy([], [style]),
        )
    )
    folder.write_text(folder.report, page)
    return run


def _lines(folder: RunFolder, name: str) -> list[str]:
    path = folder.path / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _add(found: StoppedRun, line: LiveLine) -> None:
    found.cell = line.run or found.cell
    found.second = found.second if line.second is None else line.second
    found.lag = found.lag if line.lag is None else line.lag
    found.replicas = line.replicas or found.replicas
    found.standing |= line.standing
