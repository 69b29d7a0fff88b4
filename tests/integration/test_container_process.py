"""A container's process that localkube cannot watch does not run on without a pod."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from lagbench.adapters.process.processes import GroupReaper
from lagbench.localkube.node.container_process import ContainerStarter
from lagbench.localkube.node.pod_environment import LaunchPlan
from lagbench.localkube.warm_start.client import ForkedProcess, WarmInterpreter

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "import signal; signal.pause()"]


class Warm:
    """A warm interpreter whose fork waits for its release, as long as it holds its end."""

    def __init__(self) -> None:
        """Have one fork."""
        listens, self.go = os.pipe()
        self._pid = os.posix_spawn(sys.executable, COMMAND, os.environ, setsid=True)
        os.close(listens)

    async def fork(self, plan: LaunchPlan, log: int) -> ForkedProcess:
        """Return it."""
        return ForkedProcess(self._pid, self.go)


def start_that_fails(folder: Path, warm: Any, reaper: GroupReaper) -> None:
    """Start a container that cannot be watched."""
    plan = LaunchPlan(COMMAND, dict(os.environ), folder)
    starter = ContainerStarter(reaper, warm)

    async def start() -> None:
        await starter.start(plan, folder / "main.log", asyncio.Event())

    with pytest.raises(OSError, match="too many"):
        asyncio.run(start())


@pytest.mark.parametrize("is_forked", [False, True])
def test_a_process_that_cannot_be_watched_is_killed(
    is_forked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start fails, and is tried again: each attempt must leave no process and no descriptor."""
    started: list[psutil.Process] = []

    def refuse(pid: int) -> int:
        started.append(psutil.Process(pid))
        raise OSError("too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    reaper = GroupReaper()
    warm = Warm() if is_forked else WarmInterpreter(tmp_path / "warm.log", {}, reaper)
    try:
        start_that_fails(tmp_path, warm, reaper)
        assert [process.is_running() for process in started] == [False]
        assert reaper.watched == set()
        if isinstance(warm, Warm):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(warm.go)
    finally:
        reaper.close()
        for process in started:
            if process.is_running():
                process.kill()
                process.wait()
