"""The files of a run that are followed: ``live.jsonl`` is appended to, ``phases.jsonl`` read."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from lagbench.core.live.live_line import LiveLine, LivePhase, encode_line, has_room
from lagbench.errors import NotReady

LOOKS, LOOK_SECONDS = 10, 0.1
LAST_PHASE = "bench_down"
"""The last task of a Dag run that records its phase."""

_phase = msgspec.json.Decoder(LivePhase)


def is_followed(path: Path) -> bool:
    """Return whether a follower holds the file; False also without the file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class LiveFile:
    """``live.jsonl``, held by a lock while it is open. A reader sees whole lines only."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending.

        :raises NotReady: another process appends to it, or it cannot be opened.
        """
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise NotReady(f"cannot write {path}: {error.strerror}") from error
        if not self._hold():
            os.close(self._file)
            raise NotReady(f"{path} already has a follower")
        self._size = os.fstat(self._file).st_size

    def __enter__(self) -> Self:
        """Hold the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the file go."""
        os.close(self._file)

    def append(self, line: LiveLine) -> bool:
        """Append the line with one write; False: the file is full, and nothing was written."""
        data = encode_line(line)
        if not has_room(self._size, data):
            return False
        self._size += os.write(self._file, data)
        return True

    def _hold(self) -> bool:
        """Take the lock; one who only looks whether it is held has it for an instant."""
        for _ in range(LOOKS):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(LOOK_SECONDS)
            else:
                return True
        return False


@dataclass(slots=True)
class PhaseLog:
    """Reads the phases that were added since the last time."""

    path: Path
    _position: int = 0

    def news(self) -> list[LivePhase]:
        """Return the new phases; an incomplete line is read the next time."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._position)
            lines = [line for line in file if line.endswith(b"\n")]
            self._position += sum(map(len, lines))
            return [_phase.decode(line) for line in lines]
        return []


def ends_run(phase: LivePhase) -> bool:
    """Return whether no other phase of the run follows."""
    return phase.name == LAST_PHASE and phase.state != "started"


def failures_of(phases: Iterable[LivePhase]) -> list[LivePhase]:
    """Return the phases that failed and were not repeated, by their instant."""
    newest: dict[str, LivePhase] = {}
    for phase in phases:
        newest.pop(phase.name, None)
        newest[phase.name] = phase
    return [phase for phase in newest.values() if phase.state == "failed"]
