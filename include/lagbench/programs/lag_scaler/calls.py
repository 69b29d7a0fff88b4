"""Decide by the calls about an object whether anybody still asks about it.

KEDA asks once per ``pollingInterval`` while the workload has no replicas, and that may be longer
than the idle time. An object that is dropped between two calls never has lag that persists.
"""

from __future__ import annotations

from dataclasses import dataclass

KEPT_DISTANCES = 2.5
"""An object is kept for this number of its longest distances: one call may be lost."""
LONGEST_DISTANCE_SECONDS = 4 * 3600.0
"""A call that comes later is that of a new object of the same name."""


@dataclass(slots=True)
class Calls:
    """The newest call and the longest distance between two, in seconds of the monotonic clock."""

    last_at: float | None = None
    longest_seconds: float = 0.0

    def take(self, now: float) -> None:
        """Note a call."""
        distance_seconds = 0.0 if self.last_at is None else now - self.last_at
        if distance_seconds <= LONGEST_DISTANCE_SECONDS:
            self.longest_seconds = max(self.longest_seconds, distance_seconds)
        self.last_at = now

    def have_ended(self, now: float, *, idle_seconds: float) -> bool:
        """Return whether the next call is overdue."""
        kept_seconds = max(idle_seconds, KEPT_DISTANCES * self.longest_seconds)
        return self.last_at is not None and now - self.last_at > kept_seconds
