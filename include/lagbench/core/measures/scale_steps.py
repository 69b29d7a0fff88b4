"""Read the cost of one scale step, with its precision.

A window of the rate shows noise beside the dip: nine of ten undisturbed windows of the run reach
no more than ``dip_noise_percent``. So a dip lies between what was read minus that and what was
read; of a run without undisturbed windows it may be anything from 0 on.
"""

from __future__ import annotations

from lagbench.core.measures.model import StepValue
from lagbench.core.measures.rate_dip import RECOVERED_SHARE
from lagbench.core.measures.rebalance_episodes import RebalanceEpisode


def dip_of(step: RebalanceEpisode) -> StepValue:
    """Return the dip in percent of the expected rate."""
    return _above_noise(step.dip_percent, step.dip_noise_percent)


def area_of(step: RebalanceEpisode) -> StepValue:
    """Return the lost work in seconds of the expected rate."""
    return _above_noise(step.area_seconds, step.area_noise_seconds)


def _above_noise(value: float | None, noise: float | None) -> StepValue:
    if value is None:
        return StepValue()
    return StepValue(value=value, low=0.0 if noise is None else max(0.0, value - noise), high=value)


def recovery_of(step: RebalanceEpisode) -> StepValue:
    """Return the seconds to recover: after a dip that noise alone reaches, maybe none.

    A step that was not seen to recover took longer than it was watched.
    """
    is_dip = (dip_of(step).low or 0.0) > 100 * (1 - RECOVERED_SHARE)
    if step.recovery_seconds is None:
        return StepValue(low=step.observed_seconds) if is_dip else StepValue()
    least = step.recovery_seconds if is_dip else 0.0
    return StepValue(value=step.recovery_seconds, low=least, high=step.recovery_seconds)
