"""Processor time of the parts of a measurement, sampled while it runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import psutil


class CpuLog:
    """Collects the processor seconds of named groups of processes."""

    def __init__(self, groups: Mapping[str, Sequence[int]]) -> None:
        """Watch ``groups``: name to process ids (threads count, children do not)."""
        self._groups = {
            name: [psutil.Process(pid) for pid in pids] for name, pids in groups.items()
        }
        self._at: list[int] = []
        self._seconds: dict[str, list[float]] = {name: [] for name in groups}

    def sample(self) -> None:
        """Take one sample of every group.

        :raises psutil.NoSuchProcess: a watched process has ended.
        """
        self._at.append(time.time_ns())
        for name, processes in self._groups.items():
            times = [process.cpu_times() for process in processes]
            self._seconds[name].append(sum(spent.user + spent.system for spent in times))

    def cores(self, name: str, from_at: int, until_at: int) -> float:
        """Return how many cores the group kept busy in [from_at, until_at], unix ns."""
        spent = np.interp([from_at, until_at], self._at, self._seconds[name])
        return float(spent[1] - spent[0]) / ((until_at - from_at) / 1e9)
