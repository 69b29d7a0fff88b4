"""One run of a container: a process group that cannot outlive localkube."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from lagbench.adapters.processes import GroupReaper, signal_group, start_tied
from lagbench.localkube.pod_environment import LaunchPlan


class ContainerProcess:
    """A started process; ``exited`` becomes its exit code (128 + signal number when killed)."""

    def __init__(self, plan: LaunchPlan, log_file: Path, reaper: GroupReaper) -> None:
        """Start the process; call on the event loop's thread, whose end would end the process."""
        self._reaper = reaper
        with log_file.open("ab") as log:
            self._popen: subprocess.Popen[bytes] = start_tied(
                plan.command, log=log, env=plan.environment, cwd=plan.folder
            )
        self.started_at_ns = time.time_ns()
        self.ended_at_ns = 0
        self.pid = self._popen.pid
        reaper.watch(self.pid)
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        # The kernel makes the descriptor readable when the process ends: no polling, no thread.
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._on_exit)

    def terminate(self) -> None:
        """Ask the main process to end, as kubelet does: its children hear nothing."""
        with contextlib.suppress(ProcessLookupError):
            self._popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole process group."""
        if self.exited.done():
            return
        signal_group(self.pid, signal.SIGKILL)
        # Before its setsid the process is not in a group of its own yet.
        with contextlib.suppress(ProcessLookupError):
            self._popen.kill()

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended_at_ns = time.time_ns()
        # What the main process left behind ends with the container. Not yet waited for, the main
        # process still holds its number, so this cannot hit a stranger.
        signal_group(self.pid, signal.SIGKILL)
        code = self._popen.wait()
        self._reaper.forget(self.pid)
        if not self.exited.done():
            self.exited.set_result(code if code >= 0 else 128 - code)
