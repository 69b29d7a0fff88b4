"""Burn CPU time for messages, measured by the thread's own CPU clock.

A starved pod therefore burns as much as one with a core of its own, and takes longer. The digest
of a block releases the interpreter's lock, so the poll thread is not held up.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lagbench.programs.consumer.partition_work import Writes

_BLOCK = bytes(8192)


def digest() -> None:
    """Burn 5 to 30 µs."""
    hashlib.sha256(_BLOCK).digest()


class CpuBurner:
    """Burns what each message costs; what one call burns too much, the next one burns less."""

    def __init__(
        self,
        cpu_ns: int,
        now: Callable[[], int],
        *,
        cpu_clock: Callable[[], int] = time.thread_time_ns,
        burn: Callable[[], None] = digest,
    ) -> None:
        """Burn ``cpu_ns`` for each message; ``now`` stamps the ends, ``cpu_clock`` measures."""
        self.cpu_ns = cpu_ns
        self._now = now
        self._cpu_clock, self._burn = cpu_clock, burn
        self._ahead_ns = 0

    def work_on(self, writes: Writes, late_ns: int) -> tuple[Writes, int]:
        """Burn for all records; return them and how late in ns the last of them became.

        Their instants were planned for a pod with a free core. A record whose CPU work ended later
        than planned is late by that, and so are those after it; ``late_ns`` is how late those
        before it were.
        """
        began_at = self._now()
        self._spend(writes.attempts * self.cpu_ns)
        took_ns = self._now() - began_at
        share = np.arange(1, len(writes) + 1) / len(writes)
        burned_at = began_at + np.rint(share * took_ns).astype(np.int64)
        late = np.maximum.accumulate(
            np.maximum(burned_at - self.cpu_ns - writes.started_at, late_ns)
        )
        delayed = replace(
            writes, started_at=writes.started_at + late, done_at=writes.done_at + late
        )
        return delayed, int(late[-1])

    def _spend(self, cpu_ns: int) -> None:
        until = self._cpu_clock() + cpu_ns - self._ahead_ns
        while (at := self._cpu_clock()) < until:
            self._burn()
        self._ahead_ns = at - until
