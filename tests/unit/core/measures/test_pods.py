"""CPU of the consumer pods over time."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, change, event, timeline
from tests.fakes.telemetry import of
from tests.unit.core.measures.test_rebalances import EPISODE

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.lag_readings import RateSeries
from lagbench.core.measures.evidence.played_actions import TopicPartitions
from lagbench.core.measures.pod_use import (
    PaidForItself,
    StartCost,
    consumer_cpu,
    cpu_ms_per_message,
    idle_ratio,
    paid_for_itself,
    start_cost,
    surplus,
    zero_partition_seconds,
)
from lagbench.core.measures.rebalance_episodes import episode_spans
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.telemetry.records_of_programs import ConsumerProgress, PodStarted


def report(pod: str, second: float, cpu_seconds: float, done: int = 0) -> ConsumerProgress:
    """Return what a pod tells once a second."""
    return of(ConsumerProgress, second, pod, cpu_seconds=cpu_seconds, processed_total=done)


def test_use_is_cpu_time_by_time_between_reports() -> None:
    """One pod uses 0.25 cores; a second one, there from 2 s on, uses 0.75."""
    calm = [report("a", second, 1 + 0.25 * second) for second in range(5)]
    busy = [report("b", second, 0.75 * second) for second in range(2, 5)]

    found = consumer_cpu([*busy, *calm])

    assert (found.at / SECOND).tolist() == [1, 2, 3, 4]
    assert found.mean.tolist() == [0.25, 0.25, 0.5, 0.5]
    assert found.highest.tolist() == [0.25, 0.25, 0.75, 0.75]


def test_reports_that_come_late_break_no_line() -> None:
    """A report every 1.3 s tells of each second in between."""
    found = consumer_cpu([report("a", 1.3 * number, 0.13 * number) for number in range(10)])

    assert np.allclose(found.mean, 0.1)


@pytest.mark.parametrize(
    ("reports", "use"),
    [
        ([(0, 0), (1, 1), (6, 6), (7, 7)], [1, None, None, None, None, None, 1]),  # a gap
        ([(0, 8.5), (1, 9), (2, 0.1)], [0.5, None]),  # the container was started again
        ([(1, 5.0)], []),  # a running total alone is no use of CPU
    ],
)
def test_use_that_no_two_reports_show_is_unknown(
    reports: list[tuple[float, float]], use: list[float | None]
) -> None:
    """By the second; None: not known, and nothing is negative."""
    found = consumer_cpu([report("a", second, spent) for second, spent in reports])

    for values in (found.mean, found.highest):
        assert [None if np.isnan(value) else value for value in values.tolist()] == use


def test_a_message_costs_the_cpu_time_after_the_pods_start() -> None:
    """Two pods spend 0.3 s on 600 messages; one starts again, and its start is no work."""
    first = [report("a", 1, 2.0, 0), report("a", 2, 2.1, 100), report("a", 3, 2.2, 300)]
    second = [report("b", 1, 5.0, 900), report("b", 2, 1.0, 0), report("b", 3, 1.1, 300)]

    assert cpu_ms_per_message([*second, *first]) == pytest.approx(0.5)
    assert cpu_ms_per_message([report("a", 1, 2.0, 10)]) is None


def test_pod_time_is_cut_to_the_measurement_window() -> None:
    """Created 5 s before, gone never: 60 s inside a period of 60 s."""
    assert timeline("a", 0, 1, None).seconds_between(5 * SECOND, 65 * SECOND) == 60
    assert timeline("a", 0, 1, 10).seconds_between(5 * SECOND, 65 * SECOND) == 5
    assert timeline("a", 70, 71, None).seconds_between(5 * SECOND, 65 * SECOND) == 0


@pytest.mark.parametrize(
    ("pod_seconds", "records", "rate", "ratio"),
    [
        (100, 100_000, 2000.0, 0.5),
        (0, 1, 2000.0, None),
        (1, 1001, 1000.0, 0),  # rounding of process_ms may count a little more work than time
        (1, 1001, None, 1),  # a record costs nothing
    ],
)
def test_idle_ratio_is_what_the_capacity_did_not_do(
    pod_seconds: float, records: int, rate: float | None, ratio: float | None
) -> None:
    """Capacity is pod time x the rate of one pod."""
    assert idle_ratio(pod_seconds, records, rate) == ratio


@pytest.mark.parametrize(
    ("events", "ready", "gone", "seconds"),
    [
        pytest.param(
            [
                event(3, "a", "joined"),
                event(5, "a", "assigned", {0}),
                event(20, "a", "revoked", set()),
                event(21, "a", "assigned", {1}),
                event(30, "a", "left"),
            ],
            2,
            30,
            {"a": 4},
            id="from Ready to the first partition, and the revoke",
        ),
        pytest.param(
            [event(3, "a", "joined"), event(4, "a", "assigned", set())],
            2,
            50,
            {"a": 48},
            id="never one",
        ),
        pytest.param([], None, None, {}, id="never Ready: it was starting up"),
    ],
)
def test_a_pod_without_a_partition_is_empty_since_it_is_ready(
    events: list[GroupEvent], ready: float | None, gone: float | None, seconds: dict[str, float]
) -> None:
    """Of a pod that was created at 0 s, over 100 s."""
    timelines = {"a": timeline("a", 0, ready, gone)}

    spent = zero_partition_seconds(events, timelines, 0, 100 * SECOND)

    assert spent == pytest.approx(seconds)


def crowd(members: int) -> list[GroupEvent]:
    """So many members on two partitions; the first two get one each."""
    pods = [f"p{i}" for i in range(members)]
    joins = [event(i / 10, pod, "joined") for i, pod in enumerate(pods)]
    grants = [
        event(1 + i / 10, pod, "assigned", {i} if i < 2 else set()) for i, pod in enumerate(pods)
    ]
    return [*joins, *grants]


@pytest.mark.parametrize(
    ("members", "records_done", "pods", "is_idle"),
    [
        (4, {"p0": 10, "p1": 20}, [("p2", 0), ("p3", 0)], True),
        (4, {"p0": 1, "p3": 5}, [("p2", 0), ("p3", 5)], False),
        (3, None, [("p2", None)], None),  # assignments alone do not show it
        (2, {}, [], None),  # as many members as partitions: no occasion to judge
    ],
)
def test_surplus_pods_are_named_with_their_evidence(
    members: int,
    records_done: dict[str, int] | None,
    pods: list[tuple[str, int | None]],
    *,
    is_idle: bool | None,
) -> None:
    """There are two partitions."""
    events = crowd(members)

    found = surplus(
        events,
        episode_spans(events),
        TopicPartitions(2),
        zero_seconds={"p2": 30.0},
        records_done=records_done,
    )

    assert [(pod.pod, pod.records_done) for pod in found.pods] == pods
    assert (found.is_idle, found.max_members) == (is_idle, members)
    assert [pod.zero_partition_seconds for pod in found.pods[:1]] == [30] * (members > 2)
    assert is_idle is not False or "p3" in found.text


def test_members_have_partitions_of_their_own_after_a_growth() -> None:
    """Four members are two too many for two partitions, and none once there are four."""
    events = crowd(4)
    first, last = events[0].at, events[-1].at
    spans = episode_spans(events)
    early, late = TopicPartitions(2, ((first, 4),)), TopicPartitions(2, ((last + 1, 4),))

    grown = surplus(events, spans, early, zero_seconds={}, records_done={})
    later = surplus(events, spans, late, zero_seconds={}, records_done={})

    assert (grown.most_beyond, grown.pods, grown.is_idle) == (0, (), None)
    assert (later.most_beyond, len(later.pods), later.is_idle) == (2, 2, True)


def started(pod: str, delay: float | None, cpu: float | None = 0.02) -> PodStarted:
    """Return what a pod says when it starts."""
    return of(PodStarted, 0, pod, start_delay_seconds=delay, start_cpu_seconds=cpu)


def test_the_delay_is_no_cost() -> None:
    """Ready 1.3 and 1.6 s after creation, with delays of 1.2 and 1.0 s, is 0.1 and 0.6 s.

    A container that was started again tells of a delay that did not precede Ready.
    """
    timelines = {"a": timeline("a", 10, 11.3), "b": timeline("b", 10, 11.6)}

    found = start_cost([started("a", 1.2), started("b", 1.0), started("a", 9.0)], timelines)

    assert (found.pods, found.unreported_pods) == (2, 0)
    assert found.median_seconds == pytest.approx(0.35)
    assert found.max_seconds == pytest.approx(0.6)
    assert found.delay_mean_seconds == pytest.approx(1.1)
    assert found.cpu_seconds == pytest.approx(0.04)


def test_a_missing_report_of_a_start_is_not_zero() -> None:
    """A pod that never was Ready is not counted; one without a record of its start is named."""
    found = start_cost([started("a", 1.2)], {"a": timeline("a", 10), "b": timeline("b", 10, 11)})
    older = start_cost([started("a", None, None)], {"a": timeline("a", 10, 10.9)})

    assert found == StartCost(pods=0, unreported_pods=1)
    assert (older.max_seconds, older.cpu_seconds) == (pytest.approx(0.9), None)


RISE = change(20, 2, 4)
TIMELINES = [timeline("old", 0, 0), timeline("new-a", 20, 21), timeline("new-b", 20, 21, 50)]


def ledger(
    per_bin_after: int,
    *,
    areas: tuple[float | None, ...] = (500,),
    changes: tuple[ReplicaChange, ...] = (RISE,),
    held: int | None = 0,
) -> PaidForItself:
    """1000/s for 20 s, then ``per_bin_after`` per 100 ms for 60 s."""
    processed = np.array([100] * 200 + [per_bin_after] * 600, dtype=np.int64)
    step = {"started_at": 22 * SECOND, "trigger": "scale_up"}
    episodes = [EPISODE.model_copy(update={**step, "dip_area_messages": area}) for area in areas]
    return paid_for_itself(
        RateSeries(0, processed * 2, processed),
        changes,
        episodes,
        TIMELINES,
        spike_started_at=10 * SECOND,
        ended_at=80 * SECOND,
        held_since={20 * SECOND: held}.__getitem__,
    )


def test_twice_the_rate_for_a_minute() -> None:
    """2000/s instead of 1000/s for 60 s: 60 000 net; 60 s + 30 s of pods are 1.5 pod-minutes."""
    found = ledger(200)

    assert (found.net_records, found.cleared_records) == (60_000, 60_500)
    assert found.lost_to_dips_records == 500
    assert found.added_pod_minutes == pytest.approx(1.5)
    assert found.net_records_per_pod_minute == pytest.approx(40_000)
    assert found.has_paid is True


def test_pods_may_not_have_paid_and_an_unmeasured_dip_leaves_the_loss_open() -> None:
    """Rebalancing all the time at 900/s; a dip that nobody measured; no pod that was added."""
    slower, unmeasured, without = (
        ledger(90),
        ledger(200, areas=(500, None)),
        ledger(200, changes=()),
    )

    assert (slower.net_records, slower.has_paid) == (-6000, False)
    assert unmeasured.net_records == 60_000
    assert (unmeasured.lost_to_dips_records, unmeasured.cleared_records) == (None, None)
    assert (without.has_paid, bool(without.reason and unmeasured.reason)) == (None, True)


def test_what_a_standstill_held_up_is_a_price() -> None:
    """60 000 cleared, and as many came to partitions that stood still; or nobody knows how many."""
    swinging, unknown = ledger(200, held=60_000), ledger(200, held=None)

    assert (swinging.net_records, swinging.cleared_records) == (0, 60_500)
    assert (swinging.held_by_standstills_records, swinging.has_paid) == (60_000, False)
    assert (unknown.net_records, unknown.has_paid, bool(unknown.reason)) == (None, None, True)
