"""The summary over scale steps."""

from lagbench.core.measures import RebalanceEpisode
from lagbench.core.rate_dip import NOTHING_TO_DO
from lagbench.core.rebalance_measure import rebalances

EPISODE = RebalanceEpisode(
    number=1,
    started_at=0,
    ended_at=1,
    duration_seconds=1e-9,
    trigger="scale_up",
    trigger_text="2 to 4 replicas by hpa; 2 joined",
    pods_joined=(),
    pods_left=(),
    members_before=2,
    members_after=4,
    protocol="eager",
    partitions_moved=3,
    mean_rate_before_per_second=1000,
    min_rate_per_second=900,
    dip_percent=10,
    dip_area_messages=50,
    recovery_seconds=0.5,
    observed_seconds=10,
    reason="",
)


def test_the_summary_is_over_scale_steps() -> None:
    """A pod's death dips deeper, but it is no scale step."""
    death = EPISODE.model_copy(update={"trigger": "pod_death", "dip_percent": 80})
    other = EPISODE.model_copy(update={"dip_percent": 15, "dip_area_messages": 70})

    found = rebalances([EPISODE, death, other], None)

    assert (found.count, found.scale_step_count) == (3, 2)
    assert (found.max_dip_percent, found.total_dip_area_messages) == (15, 120)
    assert found.max_recovery_seconds == 0.5


def test_a_step_that_was_not_measured_leaves_the_summary_empty() -> None:
    """The maximum of 10 and unknown is unknown."""
    unknown = EPISODE.model_copy(
        update={"dip_percent": None, "recovery_seconds": None, "reason": "no second of rate"}
    )

    found = rebalances([EPISODE, unknown], None)

    assert found.max_dip_percent is None
    assert found.max_recovery_seconds is None
    assert found.total_dip_area_messages == 100


def test_a_step_of_an_idle_group_is_left_out() -> None:
    """It had nothing to lose; the others count."""
    idle = EPISODE.model_copy(update={"dip_percent": None, "reason": NOTHING_TO_DO})

    assert rebalances([EPISODE, idle], None).max_dip_percent == 10
    assert rebalances([idle], None).max_dip_percent is None
