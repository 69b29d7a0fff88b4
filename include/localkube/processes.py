"""Start processes that cannot outlive their owner, and stop them by pid.

Two nets under every child: the parent-death signal (direct child, also when the owner is killed
with SIGKILL) and a reaper process that kills the child's whole process group when the owner's end
of a pipe closes. A child leads its own session, so its process group id is its pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

log = logging.getLogger(__name__)

_HERE = Path(__file__).resolve().parent
_ZOMBIE_LOOK_SECONDS = 0.1
_KILLED_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36

# Niceness: the higher a process's share, the lower its number (sched(7)).
CONTROL_PLANE = -5
"""localkube and what forks for it: three times the time of a pod that starts."""
COMES_FIRST = -10
"""Pods that the run depends on: nine times the time of another pod."""
ORDINARY = 0


def tied_command(
    command: Sequence[str], *, niceness: int | None = None, is_shared: bool = False
) -> list[str]:
    """Return ``command`` wrapped so that it dies with the process that starts it.

    It runs with ``niceness`` where that is allowed; None: with this process's. With ``is_shared``
    it stays in this process's group: a signal to the group reaches it and its own children.

    The kernel sends the signal when the *thread* that forked ends: start children from the main
    thread (or an event loop's thread), never from a short-lived worker thread.
    """
    launcher = str(_HERE / "process_launcher.py")
    shared = ["shared"] if is_shared else []
    begin = [sys.executable, "-I", "-S", launcher, *shared]
    return [*begin, str(os.getpid()), "-" if niceness is None else str(niceness), *command]


def start_tied(
    command: Sequence[str],
    *,
    log: IO[bytes] | int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    niceness: int | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start ``command`` as a session leader that dies with this process; output goes to ``log``."""
    return subprocess.Popen(
        tied_command(command, niceness=niceness),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=dict(env) if env is not None else None,
        cwd=cwd,
        pass_fds=tuple(pass_fds),
    )


def start_detached(command: Sequence[str], *, log: IO[bytes]) -> int:
    """Start ``command`` as a session leader that outlives this process; return its pid.

    Nothing ends it: it must watch its owner itself.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ).pid


class GroupReaper:
    """Kills the registered process groups when this process ends, even after SIGKILL.

    When the reaper process itself was killed, the next call starts another one.
    """

    def __init__(self) -> None:
        """Start the reaper process; it lives until ``close`` or the end of this process."""
        self._process = _start_reaper()
        self._is_closed = False
        self.watched: set[int] = set()

    @property
    def pid(self) -> int:
        """The reaper process's own number."""
        return self._process.pid

    def watch(self, group: int) -> None:
        """Kill ``group`` (a session leader's pid) when this process ends."""
        self.watched.add(group)
        self._say(f"+{group}\n")

    def forget(self, group: int) -> None:
        """No longer kill ``group``: it has ended, its number may be used again."""
        self.watched.discard(group)
        if not self._is_closed:
            self._say(f"-{group}\n")

    def restart_if_killed(self) -> None:
        """Start another reaper process if this one was killed; call it now and then."""
        if not self._is_closed and self._process.poll() is not None:
            self._say("")

    def close(self) -> None:
        """Kill what is still watched and end the reaper."""
        self._is_closed = True
        if self._process.poll() is not None:  # it was killed, so it kills nothing
            for group in self.watched:
                signal_group(group, signal.SIGKILL)
        self.watched.clear()
        self._end()

    def _say(self, lines: str) -> None:
        if self._is_closed:
            raise BrokenPipeError("the reaper was closed")
        if self._process.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self._write(lines)
                return
        log.error("the reaper process %d has ended; another one is started", self.pid)
        self._end()
        self._process = _start_reaper()
        self._write("".join(f"+{group}\n" for group in self.watched))

    def _write(self, lines: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(lines)
            self._process.stdin.flush()

    def _end(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # of lines that it did not read any more
                self._process.stdin.close()
        self._process.wait()


def _start_reaper() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_HERE / "process_reaper.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )


def signal_group(group: int, signum: signal.Signals) -> bool:
    """Send ``signum`` to a process group; False when it has no member left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)
        return True
    return False


def is_alive(pid: int, *, started_at: float | None = None) -> bool:
    """Return whether ``pid`` runs and is not a zombie.

    ``started_at`` (seconds since the epoch, as psutil gives it) distinguishes a reused number.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return started_at is None or abs(process.create_time() - started_at) < 1.0
    except psutil.NoSuchProcess:
        return False


def session_members(session: int) -> list[psutil.Process]:
    """Return the processes of a session, whatever group, parent and title they have."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == session:
                found.append(process)
    return found


def kill_all(processes: Sequence[psutil.Process]) -> None:
    """Kill processes and wait for their end."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_KILLED_SECONDS)


def end_process(pid: int, *, grace_seconds: float, started_at: float | None = None) -> bool:
    """Ask ``pid`` to end, kill its group after ``grace_seconds``; True when it ended when asked."""
    if not is_alive(pid, started_at=started_at):
        return True
    process = psutil.Process(pid)
    process.terminate()
    if _has_ended(process, within_seconds=grace_seconds):
        return True
    if not signal_group(pid, signal.SIGKILL):
        process.kill()
    if not _has_ended(process, within_seconds=_KILLED_SECONDS):
        raise psutil.TimeoutExpired(_KILLED_SECONDS, pid)
    return False


def _has_ended(process: psutil.Process, *, within_seconds: float) -> bool:
    """Wait for the end; a zombie has ended, even if its parent never waits for it."""
    give_up_at = time.monotonic() + within_seconds
    while (left_seconds := give_up_at - time.monotonic()) > 0:
        try:
            process.wait(timeout=min(left_seconds, _ZOMBIE_LOOK_SECONDS))
        except psutil.TimeoutExpired:
            if not is_alive(process.pid):
                return True
        else:
            return True
    return False


def adopt_orphans() -> None:
    """Make this process the parent of orphans among its descendants.

    :raises OSError: the kernel rejects the call.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def kill_descendants(*, within_seconds: float) -> bool:
    """Kill every process below this one and wait for it; return whether none is left.

    It kills also processes that start meanwhile. An orphan is below this process only if it was
    orphaned after ``adopt_orphans``.
    """
    give_up_at = time.monotonic() + within_seconds
    while below := psutil.Process().children(recursive=True):
        left_seconds = give_up_at - time.monotonic()
        if left_seconds <= 0:
            return False
        for process in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(below, timeout=left_seconds)
    return True


def take_niceness(niceness: int) -> None:
    """Set this process's niceness and its session's; what is not allowed stays as it is."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
