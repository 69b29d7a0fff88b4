"""Own the parts of the embedded Airflow in one process, and start one that ended again.

``python -m lagbench.orchestrator.airflow_supervisor --log FILE`` runs until SIGTERM. It leads a
session in which all of Airflow stays, its tasks too, so that this number finds what is left after a
crash. ``airflow standalone`` would serve logs on all interfaces, and restarts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import IO

import psutil

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.orchestrator.airflow_environment import airflow_command
from localkube.processes import GroupReaper, kill_all, session_members, tied_command

PARTS = {
    "api-server": (),
    "dag-processor": (),
    # The API server reads the log files itself. Served logs listen on all interfaces.
    "scheduler": ("--skip-serve-logs",),
    "triggerer": ("--skip-serve-logs",),
}
STOP_GRACE_SECONDS = 15
_MOST_ENDS, _WITHIN_SECONDS = 5, 600.0
"""A part that ends more often than this will not work."""


def is_airflow(words: Sequence[str]) -> bool:
    """Return whether a command is Airflow's; a process may have replaced it by a title."""
    return any(PurePath(word.split(" ")[0]).name == "airflow" for word in words)


def airflow_pid() -> int:
    """Return the outermost process of Airflow above this task; this process if none is above it.

    With ``airflow dags test`` that is the task's own process, else the scheduler, the worker of an
    executor, or what starts a scheduler that has ended again (``lagbench ui``).
    """

    def words(process: psutil.Process) -> Sequence[str]:
        try:
            found: list[str] = process.cmdline()
        except psutil.Error:  # it has ended, or is not ours to see
            return ()
        return found

    own = psutil.Process(os.getpid())
    line = [own, *own.parents()]
    return line[outermost_airflow([words(process) for process in line])].pid


def outermost_airflow(commands: Sequence[Sequence[str]]) -> int:
    """Return the last place with a command of Airflow, 0 if there is none; the task is first."""
    supervisor = "lagbench.orchestrator.airflow_supervisor"
    of_airflow = [n for n, words in enumerate(commands) if supervisor in words or is_airflow(words)]
    return max(of_airflow, default=0)


def serve(log_path: Path) -> int:
    """Run the parts until SIGTERM arrives, or one ends too often; then stop all that they started.

    This process must lead a session.
    """
    asked = StopSignal.caught((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    reaper = GroupReaper()
    reaper.watch(os.getpid())
    is_hopeless = False
    with log_path.open("ab", buffering=0) as log:
        parts = {name: _started(name, log) for name in PARTS}
        ends = {name: deque[float](maxlen=_MOST_ENDS) for name in PARTS}
        while not is_hopeless and not asked.wait(0.5):
            reaper.restart_if_killed()
            for name in [name for name, part in parts.items() if part.poll() is not None]:
                code, now, times = parts[name].returncode, time.monotonic(), ends[name]
                is_hopeless |= len(times) == _MOST_ENDS and now - times[0] < _WITHIN_SECONDS
                times.append(now)
                log.write(f"lagbench: Airflow's {name} ended with exit code {code}\n".encode())
                kill_all(_outside(parts.values()))
                parts[name] = _started(name, log)
        if is_hopeless:
            log.write(b"lagbench: it ended too often, so all of Airflow is stopped\n")
    _stop_all()
    reaper.forget(os.getpid())
    reaper.close()
    return 1 if is_hopeless else 0


def _started(name: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a part in this process's session; it dies with this process."""
    return subprocess.Popen(
        tied_command(airflow_command(name, *PARTS[name]), is_shared=True),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )


def _outside(parts: Iterable[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    """Return what is in this session but not below a running part: what ended ones have left."""
    kept = {os.getpid()}
    for part in parts:
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(part.pid)
            kept |= {root.pid, *(process.pid for process in root.children(recursive=True))}
    return [process for process in session_members(os.getpid()) if process.pid not in kept]


def _stop_all() -> None:
    """Ask everything in this session to end, and kill what has not, or has started meanwhile."""
    asked = _outside(())
    for process in asked:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(asked, timeout=STOP_GRACE_SECONDS)
    kill_all(_outside(()))


def main() -> None:
    """Read the flags and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    sys.exit(serve(parser.parse_args().log))


if __name__ == "__main__":
    main()
