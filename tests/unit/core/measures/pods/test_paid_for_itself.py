"""Whether the added pods paid for themselves."""

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, change, timeline

from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.pods.paid_for_itself import PaidForItself, paid_for_itself
from lagbench.core.measures.rebalance.episodes import RebalanceEpisode
from lagbench.core.measures.replicas.steps import ReplicaChange

RISE = change(20, 2, 4)
TIMELINES = [timeline("old", 0, 0), timeline("new-a", 20, 21), timeline("new-b", 20, 21, 50)]


def ledger(
    per_bin_after: int,
    *,
    areas: tuple[float | None, ...] = (500,),
    changes: tuple[ReplicaChange, ...] = (RISE,),
) -> PaidForItself:
    """1000/s for 20 s, then ``per_bin_after`` per 100 ms for 60 s."""
    processed = np.array([100] * 200 + [per_bin_after] * 600, dtype=np.int64)
    episodes = [
        RebalanceEpisode(
            number=1,
            started_at=22 * SECOND,
            ended_at=23 * SECOND,
            duration_seconds=1,
            trigger="scale_up",
            trigger_text="",
            pods_joined=(),
            pods_left=(),
            members_before=2,
            members_after=4,
            protocol=None,
            partitions_moved=0,
            mean_rate_before_per_second=None,
            min_rate_per_second=None,
            dip_percent=None,
            dip_area_messages=area,
            recovery_seconds=None,
            observed_seconds=0,
            reason="",
        )
        for area in areas
    ]
    return paid_for_itself(
        RateSeries(0, processed * 2, processed),
        changes,
        episodes,
        TIMELINES,
        spike_started_at=10 * SECOND,
        ended_at=80 * SECOND,
    )


def test_twice_the_rate_for_a_minute() -> None:
    """2000/s instead of 1000/s for 60 s: 60 000 net; 60 s + 30 s of pods are 1.5 pod-minutes."""
    found = ledger(200)

    assert found.net_records == 60_000
    assert found.cleared_records == 60_500
    assert found.lost_to_dips_records == 500
    assert found.added_pod_minutes == pytest.approx(1.5)
    assert found.net_records_per_pod_minute == pytest.approx(40_000)
    assert found.has_paid is True


def test_pods_that_slowed_the_group_down_did_not_pay() -> None:
    """Rebalancing all the time at 900/s."""
    found = ledger(90)

    assert found.net_records == -6000
    assert found.has_paid is False


def test_an_unmeasured_dip_leaves_the_loss_open() -> None:
    """The net stands, what was lost on top of it is not known."""
    found = ledger(200, areas=(500, None))

    assert found.net_records == 60_000
    assert found.lost_to_dips_records is None
    assert found.cleared_records is None
    assert found.reason


def test_without_a_rise_there_is_nothing_to_pay_for() -> None:
    """None and the reason."""
    found = ledger(200, changes=())

    assert (found.has_paid, bool(found.reason)) == (None, True)
