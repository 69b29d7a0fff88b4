"""Follow the files of a run in progress: its phases and its live lines."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from dataclasses import dataclass, field

import msgspec

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.line import LiveCell, LiveLine, LivePhase, SloStanding, decode_line
from lagbench.programs.live.live_file import LAST_PHASE, PhaseLog, is_followed

SHOWN_LINES = 60
FOLLOWER_SECONDS, LOOK_SECONDS = 10.0, 0.1
YOUNG_SECONDS = 600.0
"""A run without a follower and younger than that may still bring its bench up."""


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


class WatchedRun:
    """A run folder that fills; the folder itself may come later."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin at the first phase and the first line."""
        self.view = RunView()
        self._folder = folder
        self._phases = PhaseLog(folder.phases)
        self._position = 0

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
