"""Episodes with their dips, and the summary over scale steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, change, event, timeline

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import RateSeries
from lagbench.core.measures.model import (
    histogram,
    longest_without_new_minimum,
    percentile,
)
from lagbench.core.measures.partition_work import PartitionWork
from lagbench.core.measures.rate_dip import NOTHING_TO_DO
from lagbench.core.measures.rebalance_episodes import RebalanceEpisode, StepCosts, episode_spans
from lagbench.core.measures.rebalance_summary import (
    GroupWork,
    rebalance_episodes,
    rebalances,
    unanswered_steps,
)
from lagbench.core.measures.replica_steps import ReplicaChange

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


def changed(**fields: Any) -> RebalanceEpisode:
    """Return the episode with other fields."""
    return EPISODE.model_copy(update=fields)


UNKNOWN = changed(dip_percent=None, recovery_seconds=None, reason="no second of rate")
IDLE = changed(dip_percent=None, reason=NOTHING_TO_DO)


@pytest.mark.parametrize(
    ("others", "dip", "area", "recovery"),
    [
        ([changed(dip_percent=15, dip_area_messages=70)], 15, 120, 0.5),
        ([changed(trigger="pod_death", dip_percent=80)], 10, 50, 0.5),  # no scale step
        ([UNKNOWN], None, 100, None),  # the maximum of 10 and unknown is unknown
        ([IDLE], 10, 50, 0.5),  # it had nothing to lose
    ],
)
def test_the_summary_is_over_scale_steps_with_work_to_lose(
    others: list[RebalanceEpisode], dip: float | None, area: float, recovery: float | None
) -> None:
    """Of a step with a dip of 10 % beside others."""
    found = rebalances([EPISODE, *others], None)

    assert (found.count, found.max_dip_percent) == (2, dip)
    assert (found.total_dip_area_messages, found.max_recovery_seconds) == (area, recovery)
    assert rebalances([IDLE], None).max_dip_percent is None


def group(
    events: list[GroupEvent],
    done: list[tuple[float, float]],
    *,
    changes: tuple[ReplicaChange, ...] = (),
    pod_rate: float = 500.0,
    message_seconds: float = 0.002,
) -> GroupWork:
    """Return a group with a backlog that no pods can finish; ``done``: (seconds, per second)."""
    counts = np.concatenate(
        [np.diff(np.arange(round(s * 10) + 1) * rate // 10) for s, rate in done]
    )
    size, per_partition = counts.size, 1e7
    offered = np.zeros(size, dtype=np.int64)
    offered[0] = round(4 * per_partition)
    work = PartitionWork(
        arrivals=np.zeros((4, size), dtype=np.float32),
        waiting=np.full((4, size), per_partition, dtype=np.float32),
        done=None,
        lost=np.zeros(size, dtype=np.int64),
        pod_rates=None,
        message_seconds=None,
    )
    return GroupWork(
        rate=RateSeries(0, offered, counts.astype(np.int64)),
        work=work,
        events=events,
        timelines={},
        changes=changes,
        from_at=0,
        until_at=size * 100_000_000,
        nominal_rate_per_second=pod_rate,
        message_seconds=message_seconds,
    )


def episodes(found: GroupWork) -> tuple[RebalanceEpisode, ...]:
    """Return the episodes of the group."""
    return rebalance_episodes(episode_spans(found.events), found, "eager")


START = [
    event(0, "a", "joined"),
    event(0, "b", "joined"),
    event(0.1, "a", "assigned", {0, 1}),
    event(0.1, "b", "assigned", {2, 3}),
]
JOIN = [event(20, "c", "joined"), event(20.1, "a", "revoked", {1})]


def test_a_stop_while_a_partition_waits_for_70_seconds_is_found() -> None:
    """It begins 6 s into the step, beyond the aftermath of its events: it is still the step's."""
    events = [*START, *JOIN, event(20.2, "c", "assigned", set()), event(90, "c", "assigned", {0})]
    found = group(events, [(26, 1000), (60, 0), (60, 1000)], changes=(change(19, 2, 3),))

    step = episodes(found)[1]

    assert step.trigger == "scale_up"
    assert step.dip_percent == pytest.approx(100)
    assert step.recovery_seconds is None or step.recovery_seconds > 55


def test_a_slow_group_dips_too() -> None:
    """Two pods of 8/s and a backlog: a standstill of 30 s at the step is 100 %, not too little."""
    events = [*START, *JOIN, event(50, "c", "assigned", {0})]
    found = group(
        events,
        [(20, 16), (30, 0), (60, 24)],
        changes=(change(19, 2, 3),),
        pod_rate=8.0,
        message_seconds=1.0,
    )

    step = episodes(found)[1]

    assert step.dip_percent == pytest.approx(100)
    assert step.window_seconds == 10


def test_a_step_right_after_the_load_rose_is_measured_against_what_pods_can_do() -> None:
    """Ten quiet seconds before do not make 250/s out of 1000/s look like a dip of a third."""
    events = [*START, *JOIN, event(20.3, "c", "assigned", {0})]
    found = group(events, [(19, 200), (1, 1000), (40, 250)], changes=(change(19, 2, 3),))

    dip = episodes(found)[1].dip_percent

    assert dip is not None
    assert dip > 75


def test_a_step_without_any_rebalance_is_unanswered() -> None:
    """The replicas rose under a backlog and the group told nothing of it."""
    found = group(list(START), [(60, 1000)], changes=(change(19, 2, 3),))

    assert unanswered_steps(episodes(found), found) == (19 * SECOND,)


def test_a_step_whose_pods_left_before_they_joined_moved_nothing() -> None:
    """Up by one and down again within a second: Kubernetes saw the pod come and go."""
    steps = (change(19, 2, 3), change(19.5, 3, 2))
    pods = {"c": timeline("c", 19, gone=20)}
    found = replace(group(list(START), [(60, 1000)], changes=steps), timelines=pods)

    assert unanswered_steps(episodes(found), found) == ()


def test_a_step_without_work_counts_apart_and_an_unknown_dip_leaves_none() -> None:
    """The mean of the others would be one of chosen steps."""
    found = StepCosts.of(
        [changed(dip_percent=40, area_seconds=4), changed(dip_percent=20, area_seconds=2), IDLE]
    )
    unknown = StepCosts.of([EPISODE, UNKNOWN])

    assert (found.steps, found.idle_steps) == (2, 1)
    assert (found.mean_dip_percent, found.max_dip_percent) == (30, 40)
    assert (found.mean_area_seconds, found.max_area_seconds) == (3, 4)
    assert (unknown.steps, unknown.mean_dip_percent, unknown.max_area_seconds) == (2, None, None)
    assert StepCosts.of([]).mean_dip_percent is None


def test_percentile_interpolates_and_needs_values() -> None:
    """The median of 1..4 is 2.5, and nothing has no percentile."""
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([], 50) is None


def test_histogram_bounds_are_inclusive_and_the_last_bin_is_open() -> None:
    """A value on a bound belongs to that bound's bin."""
    assert histogram([0.1, 0.5, 0.50001, 7], [0.5, 1.0]) == [(0.5, 2), (1.0, 1), (None, 1)]


def test_longest_time_without_a_new_minimum() -> None:
    """10, 9, 9, 9, 8, 8.5: the 9 stood for 3 s; NaN is skipped, not a minimum."""
    at = np.arange(6, dtype=np.float64)

    assert longest_without_new_minimum(at, np.array([10, 9, np.nan, 9, 8, 8.5])) == 3.0
    assert longest_without_new_minimum(at[:1], np.array([1.0])) is None


def test_a_falling_series_has_no_plateau() -> None:
    """Each sample is a new minimum, so the longest time is one sample."""
    assert longest_without_new_minimum(np.arange(9.0), -np.arange(9.0)) == pytest.approx(1.0)
