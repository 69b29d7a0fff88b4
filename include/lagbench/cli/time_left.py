"""The time that an unattended command may take: it starts nothing that does not fit into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Until ``ends_at`` (seconds of ``clock``); None: without an end."""

    ends_at: float | None
    clock: Callable[[], float]

    @classmethod
    def of_hours(cls, hours: float | None, clock: Callable[[], float]) -> TimeLeft:
        """Return the time that ends in ``hours`` from now; None: without an end."""
        return cls(None if hours is None else clock() + 3600 * hours, clock)

    @property
    def seconds(self) -> float:
        """Seconds that are left, at least 0; infinite without an end."""
        return float("inf") if self.ends_at is None else max(0.0, self.ends_at - self.clock())

    def fits(self, seconds: float) -> bool:
        """Return whether something that takes ``seconds`` may still start."""
        return seconds <= self.seconds
