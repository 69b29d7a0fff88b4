"""Reap the orphans of pods: localkube adopts them, so it has to wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import psutil

from lagbench.adapters.process.processes import GroupReaper

_LOOK_SECONDS = 1.0


async def keep_reaping(reaper: GroupReaper) -> None:
    """Reap ended children that localkube did not start itself, at a fixed interval.

    A process that localkube started is on the list of ``reaper`` until its starter has waited for
    it.
    """
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        _reap(_children() - reaper.watched - {reaper.pid})


def _reap(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    lists = [*Path("/proc/self/task").glob("*/children")]
    if not lists:  # a kernel without CONFIG_PROC_CHILDREN
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for path in lists for pid in path.read_text(encoding="ascii").split()}
