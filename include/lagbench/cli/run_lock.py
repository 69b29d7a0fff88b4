"""Allow one command at a time on a bench: a file lock that names its holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lagbench.errors import NotReady
from lagbench.project import make_state_dir
from localkube.processes import end_process

STOP_GRACE_SECONDS = 60
"""A run that is asked to end stops its Dag (20 s at most) and its bench; the clean-up of a cluster
takes additional time."""


@contextmanager
def one_run_at_a_time(state_dir: Path, purpose: str = "a run") -> Iterator[None]:
    """Hold the bench for one run, or for work that excludes runs; others fail at once."""
    make_state_dir(state_dir)
    with _lock_file(state_dir).open("a+") as lock:
        if not _take(lock):
            pid, theirs = _holder(lock)
            raise NotReady(
                f"{theirs} (pid {pid}) uses this bench; wait for its end, stop it with Ctrl-C "
                "there, or stop everything with lagbench down"
            )
        lock.truncate(0)
        lock.write(f"{os.getpid()} {purpose}")
        lock.flush()
        yield


def stop_running_run(
    state_dir: Path,
    *,
    grace_seconds: float = STOP_GRACE_SECONDS,
    say: Callable[[str], None] = lambda _: None,
) -> str | None:
    """Stop the command that holds the bench, as Ctrl-C does; return its purpose, None: none did."""
    if not _lock_file(state_dir).exists():
        return None
    with _lock_file(state_dir).open("a+") as lock:
        if _take(lock):
            return None
        pid, purpose = _holder(lock)
    if not pid.isdigit():
        raise NotReady(f"a run holds {_lock_file(state_dir)} but does not name its process")
    say(f"asking {purpose} (pid {pid}) to end, for {grace_seconds:.0f} s at most")
    if not end_process(int(pid), grace_seconds=grace_seconds):
        say(f"{purpose} (pid {pid}) did not end in time and was killed")
    return purpose


def _lock_file(state_dir: Path) -> Path:
    return state_dir / "run.lock"


def _take(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(lock: TextIO) -> tuple[str, str]:
    """Return the holder's process and purpose."""
    lock.seek(0)
    pid, _, purpose = lock.read().strip().partition(" ")
    return pid, purpose or "a run"
