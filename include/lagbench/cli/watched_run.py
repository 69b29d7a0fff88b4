"""Follow the files of a run in progress: its phases and its live lines."""

from __future__ import annotations

import contextlib
import time

import msgspec

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.cli.run_view import RunView
from lagbench.core.live import decode_line
from lagbench.programs.live.live_file import LAST_PHASE, PhaseLog, is_followed

FOLLOWER_SECONDS, LOOK_SECONDS = 10.0, 0.1
YOUNG_SECONDS = 600.0
"""A run without a follower and younger than that may still bring its bench up."""


class WatchedRun:
    """A run folder that fills; the folder itself may come later."""

    def __init__(self, folder: RunFolder) -> None:
        """Begin at the first phase and the first line."""
        self.view = RunView()
        self._folder = folder
        self._phases = PhaseLog(folder.phases)
        self._position = 0

    def await_follower(self, *, timeout_seconds: float = FOLLOWER_SECONDS) -> None:
        """Wait until the run's follower has ended, which follows the end of its Dag run at once."""
        gives_up_at = time.monotonic() + timeout_seconds
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
