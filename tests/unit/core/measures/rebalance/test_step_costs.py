"""The dips of one kind of episode: means, maxima, and what is not known."""

from __future__ import annotations

from tests.unit.core.measures.rebalance.test_rebalance_measure import EPISODE

from lagbench.core.measures.rebalance.episodes import RebalanceEpisode
from lagbench.core.measures.rebalance.rate_dip import NOTHING_TO_DO
from lagbench.core.measures.rebalance.step_costs import StepCosts


def episode(dip: float | None, reason: str = "") -> RebalanceEpisode:
    """Return an episode with a dip; its area is a tenth of that."""
    area = None if dip is None else dip / 10
    update = {"dip_percent": dip, "area_seconds": area, "reason": reason}
    return EPISODE.model_copy(update=update)


def test_a_step_without_work_counts_apart_and_an_unknown_dip_leaves_none() -> None:
    """The mean of the others would be one of chosen steps."""
    found = StepCosts.of([episode(40), episode(20), episode(None, NOTHING_TO_DO)])
    unknown = StepCosts.of([episode(10), episode(None)])

    assert (found.steps, found.idle_steps) == (2, 1)
    assert (found.mean_dip_percent, found.max_dip_percent) == (30, 40)
    assert (found.mean_area_seconds, found.max_area_seconds) == (3, 4)
    assert (unknown.steps, unknown.mean_dip_percent, unknown.max_area_seconds) == (2, None, None)
    assert StepCosts.of([]).mean_dip_percent is None
