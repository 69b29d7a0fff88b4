"""Keep what the terminal shows of a run: its phase, and what its live lines add up to."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from lagbench.core.live import LiveCell, LiveLine, LivePhase, SloStanding

SHOWN_LINES = 60


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
    is_over: bool = False
    lag_history: deque[int | None] = field(default_factory=lambda: deque(maxlen=SHOWN_LINES))
    ready_history: deque[int | None] = field(default_factory=lambda: deque(maxlen=SHOWN_LINES))

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
        self.is_over = line.is_last
        self.lag_history.append(line.lag)
        self.ready_history.append(None if line.replicas is None else line.replicas[1])

    def seconds_until(self, end_seconds: float | None) -> float | None:
        """Return the time until a second of the stream, 0 after it; None: it is not known."""
        if end_seconds is None or self.newest is None or self.newest.second is None:
            return None
        return max(end_seconds - self.newest.second, 0.0)
