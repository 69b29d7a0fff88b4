"""State how far real runs lie from the simulator's prediction, and the range that follows.

The residuals are those of kept runs that the simulator plays, each against the median of its draws
at the run's own phase of the HPA's sync; runs whose phase is not known are left out.
``python -m tests.model_error --table`` simulates them again and prints the rows below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lagbench.core.measures.measures import NAMED

RANGE_SHARE = 0.9
"""Of real runs that an interval is to hold."""


@dataclass(frozen=True, slots=True)
class ModelError:
    """Measured - predicted of ``runs``: in the measure's unit, or as a share of the prediction."""

    runs: int
    is_relative: bool
    median: float
    p05: float
    p95: float
    below: float
    """5 % of the runs lie lower than the lowest draw by more than this; never above 0."""
    above: float
    """5 % lie higher than the highest draw by more than this; never below 0."""

    def interval(self, *simulated: float) -> tuple[float, float]:
        """Return the 90 % range of a real run, given draws, or the two ends of their range."""
        low, high = min(simulated), max(simulated)
        if self.is_relative:
            return low * (1 + self.below), high * (1 + self.above)
        return max(low + self.below, 0.0), high + self.above


_ERRORS: Mapping[str, ModelError] = {
    "reaction_seconds": ModelError(73, False, -0.0855, -3.89, 0.29, 0.0, 0.0),
    "drain_seconds": ModelError(79, False, -0.135, -3.5, 1.92, -1.3, 0.661),
    "peak_lag_records": ModelError(79, True, 0.00582, -0.076, 0.204, -0.00667, 0.029),
    "time_lag_p99_seconds": ModelError(79, False, -0.425, -2.69, 2.24, -1.5, 0.464),
    "pod_minutes": ModelError(79, True, -0.000229, -0.00138, 0.0162, 0.0, 0.000181),
}


def error_of(measure: str) -> ModelError | None:
    """Return the residuals of a measure; None: they are not known."""
    return _ERRORS.get(measure)


def error_text(measures: Iterable[str]) -> str:
    """Say how far kept runs lie from the prediction, in the measures whose error is known."""
    parts = []
    for name in measures:
        if error := error_of(name):
            by, unit = (100, "%") if error.is_relative else (1, NAMED[name].unit)
            low, middle, high = (f"{by * x:+.1f}" for x in (error.p05, error.median, error.p95))
            parts.append(f"{NAMED[name].title.lower()} {middle} {unit} ({low} to {high})")
    return f"measured - predicted of kept runs: {', '.join(parts)}"
