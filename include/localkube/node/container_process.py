"""One run of a container: a process group that cannot outlive localkube."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from localkube.node.pod_environment import LaunchPlan
from localkube.processes import GroupReaper, signal_group, start_tied
from localkube.warm_start.client import WarmInterpreter


class ContainerProcess:
    """A started child; ``exited`` becomes its exit code (128 + signal number when killed)."""

    def __init__(
        self, pid: int, reaper: GroupReaper, popen: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Watch the child ``pid``; ``popen`` is its handle, if there is one.

        :raises OSError: it cannot be watched; it is killed then, for no pod would own it.
        """
        self._reaper, self._popen = reaper, popen
        self.started_at_ns = time.time_ns()
        self.ended_at_ns = 0
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        try:
            reaper.watch(pid)
            # The descriptor is readable when the process has ended: no polling, no thread.
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            self.kill()
            self._wait()
            with contextlib.suppress(OSError):
                reaper.forget(pid)
            raise
        self._loop.add_reader(self._pidfd, self._on_exit)

    @property
    def is_forked(self) -> bool:
        """True: it is a fork of the warm interpreter."""
        return self._popen is None

    def terminate(self) -> None:
        """Send SIGTERM to the main process only, as kubelet does, not to its children.

        A stopped process would not see it: its group continues first.
        """
        self.send_signal(signal.SIGCONT)
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole process group."""
        if self.exited.done():
            return
        signal_group(self.pid, signal.SIGKILL)
        # Before its setsid the process does not have its own group yet.
        self._send(signal.SIGKILL)

    def send_signal(self, signum: signal.Signals) -> None:
        """Send ``signum`` to the whole process group."""
        if not self.exited.done():
            signal_group(self.pid, signum)

    def _send(self, signum: signal.Signals) -> None:
        if not self.ended_at_ns:  # not reaped yet: the pid is still its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended_at_ns = time.time_ns()
        # Processes that the main process left behind end with the container. The main process is
        # not reaped yet, so it still holds its pid and the signal cannot hit another group.
        signal_group(self.pid, signal.SIGKILL)
        code = self._wait()
        if not self.exited.done():
            self.exited.set_result(code if code >= 0 else 128 - code)
        self._reaper.forget(self.pid)

    def _wait(self) -> int:
        if self._popen is not None:
            return self._popen.wait()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ContainerStarter:
    """Starts containers: as forks of the warm interpreter if that is equivalent, else by exec."""

    def __init__(self, reaper: GroupReaper, warm: WarmInterpreter) -> None:
        """Fork ``warm`` as long as it is warm."""
        self._reaper, self._warm = reaper, warm

    async def start(
        self, plan: LaunchPlan, log_file: Path, stopping: asyncio.Event
    ) -> ContainerProcess | None:
        """Return the started process; None when ``stopping`` was set before it was started.

        :raises OSError: it cannot be started.
        """
        with log_file.open("ab") as log:
            forked = await self._warm.fork(plan, log.fileno())
            if stopping.is_set():
                if forked is not None:
                    forked.abandon()
                return None
            if forked is not None:
                try:
                    process = ContainerProcess(forked.pid, self._reaper)
                except OSError:
                    forked.abandon()
                    raise
                forked.release()
                return process
            # Start on the event loop's thread: the process ends with the thread that started it.
            popen = start_tied(
                plan.command, log=log, env=plan.environment, cwd=plan.folder, niceness=plan.niceness
            )
        return ContainerProcess(popen.pid, self._reaper, popen)
