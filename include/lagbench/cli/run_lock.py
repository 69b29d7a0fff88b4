"""One run at a time on a bench: a file lock that names its holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lagbench.adapters.processes import end_process
from lagbench.errors import NotReady

STOP_GRACE_SECONDS = 60
"""A run that is asked to end stops its Dag (20 s at most) and its bench."""


@contextmanager
def one_run_at_a_time(state_dir: Path) -> Iterator[None]:
    """Hold the bench for one run; a second command is refused, not queued.

    :raises NotReady: another run holds it; the message names its process.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    with _lock_file(state_dir).open("a+") as lock:
        if not _take(lock):
            raise NotReady(
                f"another run (pid {_holder(lock)}) uses this bench; wait for its end, "
                "end it with Ctrl-C there, or end everything with lagbench down"
            )
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def stop_running_run(state_dir: Path) -> bool:
    """End the run that holds the bench, as Ctrl-C does; False when none does."""
    if not _lock_file(state_dir).exists():
        return False
    with _lock_file(state_dir).open("a+") as lock:
        if _take(lock):
            return False
        holder = _holder(lock)
    if not holder.isdigit():
        raise NotReady(f"a run holds {_lock_file(state_dir)} but does not name its process")
    end_process(int(holder), grace_seconds=STOP_GRACE_SECONDS)
    return True


def _lock_file(state_dir: Path) -> Path:
    return state_dir / "run.lock"


def _take(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: TextIO) -> str:
    lock.seek(0)
    return lock.read().strip()
