"""The clocks of the autoscaler: wall time for stamps, monotonic time for waits."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Clock:
    """Both readings; tests pass their own."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_seconds: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class HpaClock:
    """When HPAs are synced: the period, and the wait before an HPA's first sync.

    As in Kubernetes the first sync comes one period after the HPA is seen, so each HPA has a
    phase of its own. ``first_sync_seconds`` sets that wait; a seed draws it for each HPA.
    """

    period_seconds: float = 15.0
    first_sync_seconds: float | None = None
    seed: int | None = None

    def first_delay_seconds(self, name: str) -> float:
        """Return the wait before the first sync of the HPA called ``name``."""
        if self.first_sync_seconds is not None:
            return self.first_sync_seconds
        if self.seed is None:
            return self.period_seconds
        return Random(self.seed ^ zlib.crc32(name.encode())).uniform(0, self.period_seconds)  # noqa: S311 - a phase, not a secret
