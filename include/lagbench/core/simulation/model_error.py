"""State how far real runs lie from the simulator's prediction, and the range that follows.

The residuals are those of kept runs that the simulator plays, each against the median of its draws
at the run's own phase of the HPA's sync; runs whose phase is not known are left out.
``python -m tests.model_error --table`` simulates them again and prints the rows below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

LEVELS = np.arange(1, 20) / 20
"""Of ``ModelError.quantiles``: 5 % to 95 % of the runs."""
_LOW, _HIGH = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class ModelError:
    """Quantiles of measured - predicted: in the measure's unit, or as a share of the prediction."""

    runs: int
    is_relative: bool
    quantiles: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle residual."""
        return self.quantiles[len(self.quantiles) // 2]

    @property
    def p05(self) -> float:
        """The residual below which 5 % of the runs lie."""
        return self.quantiles[0]

    @property
    def p95(self) -> float:
        """The residual below which 95 % of the runs lie."""
        return self.quantiles[-1]

    def interval(self, *simulated: float) -> tuple[float, float]:
        """Return the 90 % range of a real run, given simulated values that are equally likely.

        It is that of a simulated value plus a residual; of a range alone give both ends.
        """
        values, residuals = np.array(simulated)[:, None], np.array(self.quantiles)
        ways = np.maximum(values * (1 + residuals) if self.is_relative else values + residuals, 0.0)
        points = np.unique(ways)
        below = np.mean([np.interp(points, way, LEVELS, left=0, right=1) for way in ways], axis=0)
        rounding = 1e-9
        low = points[np.searchsorted(below, _LOW - rounding)]
        return float(low), float(points[np.searchsorted(below, _HIGH - rounding)])


# fmt: off
_ERRORS: Mapping[str, ModelError] = {
    "reaction_seconds": ModelError(73, False, (
        -1.78, -0.0346, 0.0772, 0.237, 0.43, 0.548, 0.823, 0.894, 0.935, 0.957, 0.989, 1, 1.04,
        1.08, 1.11, 1.15, 1.17, 1.25, 1.28,
    )),
    "drain_seconds": ModelError(79, False, (
        -3.65, -1.69, 0.0039, 0.313, 0.532, 0.746, 0.985, 1.07, 1.23, 1.67, 1.94, 2.3, 2.41, 2.56,
        2.96, 3.35, 4, 4.97, 8.56,
    )),
    "peak_lag_records": ModelError(75, True, (
        -0.0136, -0.00177, 0.00795, 0.0471, 0.0581, 0.0661, 0.0916, 0.0973, 0.109, 0.116, 0.13,
        0.142, 0.177, 0.203, 0.237, 0.254, 0.286, 0.333, 0.391,
    )),
    "time_lag_p99_seconds": ModelError(79, False, (
        -3.57, -2.11, -1.42, -0.906, -0.612, -0.452, -0.357, -0.0394, 0.0381, 0.215, 0.249, 0.34,
        0.538, 0.826, 0.995, 1.22, 1.53, 3, 5.33,
    )),
    "pod_minutes": ModelError(79, True, (
        -0.00693, -0.00595, -0.00545, -0.00512, -0.00466, -0.00418, -0.00392, -0.00351, -0.00301,
        -0.00272, -0.00215, -0.00205, -0.0019, -0.00177, -0.00163, -0.00126, -0.000294, 0, 0.0198,
    )),
}
# fmt: on


def error_of(measure: str) -> ModelError | None:
    """Return the residuals of a measure; None: they are not known."""
    return _ERRORS.get(measure)
