"""The dips of one kind of step, summarised over a run."""

from tests.unit.core.measures.rebalance.test_rebalance_measure import EPISODE

from lagbench.core.measures.rebalance.episodes import RebalanceEpisode
from lagbench.core.measures.rebalance.rate_dip import NOTHING_TO_DO
from lagbench.core.measures.rebalance.step_costs import step_costs


def episode(trigger: str, dip: float | None, area: float | None = 0.5) -> RebalanceEpisode:
    """Return an episode with that dip and area."""
    return EPISODE.model_copy(update={"trigger": trigger, "dip_percent": dip, "area_seconds": area})


def test_steps_up_and_down_are_separate() -> None:
    """Steps up of 10 and 30 % have a mean of 20 %; the step down of 80 % is in its own."""
    episodes = [episode("scale_up", 10), episode("scale_down", 80), episode("scale_up", 30, 1.5)]

    up, down = step_costs(episodes, "scale_up"), step_costs(episodes, "scale_down")

    assert (up.steps, up.mean_dip_percent, up.max_dip_percent) == (2, 20, 30)
    assert (up.mean_area_seconds, up.max_area_seconds) == (1.0, 1.5)
    assert (down.steps, down.mean_dip_percent) == (1, 80)


def test_a_step_without_work_is_counted_apart() -> None:
    """It had nothing to lose, so it does not lower the mean."""
    idle = episode("scale_down", None, None).model_copy(update={"reason": NOTHING_TO_DO})

    found = step_costs([episode("scale_down", 40), idle], "scale_down")

    assert (found.steps, found.idle_steps, found.mean_dip_percent) == (1, 1, 40)


def test_an_unknown_dip_leaves_the_mean_unknown() -> None:
    """The mean of 10 and unknown is unknown; without any step there is none."""
    assert step_costs([episode("scale_up", 10), episode("scale_up", None)], "scale_up") == (
        step_costs([], "scale_up").model_copy(
            update={
                "steps": 2,
                "mean_area_seconds": 0.5,
                "max_area_seconds": 0.5,
                "max_recovery_seconds": 0.5,
            }
        )
    )
    assert step_costs([], "action").mean_dip_percent is None
