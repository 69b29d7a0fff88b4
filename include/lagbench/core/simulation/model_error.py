"""The error of the simulator: how far real runs are from its predictions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelError:
    """Residuals (measured - predicted) of like runs, in the measure's unit or as a share of it."""

    median: float
    p05: float
    p95: float
    runs: int
    is_relative: bool = False

    def interval(self, low: float, high: float) -> tuple[float, float]:
        """Return the range of 90 % of real runs, given the simulated range."""
        if self.is_relative:
            return low * (1 + self.p05), high * (1 + self.p95)
        return low + self.p05, high + self.p95


def error_of(measure: str) -> ModelError | None:  # noqa: ARG001 - none is fitted yet
    """Return the error of a measure; None: no run has shown it."""
    return None
