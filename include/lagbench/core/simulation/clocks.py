"""Define clocks with phases of their own: each has its next instant and its action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class SimulatedClock:
    """Runs ``act`` at ``next_at`` and every ``period_seconds`` after; ``is_shown``: as a row."""

    next_at: float
    period_seconds: float
    act: Callable[[], None]
    is_shown: bool = False

    def run(self) -> None:
        """Act, then wait one period."""
        self.act()
        self.next_at += self.period_seconds
