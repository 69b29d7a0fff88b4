"""What the pods' time was used for."""

import pytest

from lagbench.core.measures.evidence.group_events import EventKind, GroupEvent
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.evidence.topic_partitions import TopicPartitions
from lagbench.core.measures.pods.pod_time import idle_ratio, surplus, zero_partition_seconds
from lagbench.core.measures.rebalance.episodes import episode_spans

SECOND = 1_000_000_000


def event(second: float, pod: str, kind: EventKind, owned: set[int] | None = None) -> GroupEvent:
    """Return an event at ``second``."""
    return GroupEvent(
        round(second * SECOND), pod, kind, None if owned is None else frozenset(owned)
    )


def timeline(pod: str, created: int, ready: int | None, gone: int | None) -> PodTimeline:
    """Return a timeline in seconds."""
    instants = [None if s is None else s * SECOND for s in (created, ready, gone)]
    return PodTimeline(pod, created * SECOND, instants[1], instants[2], 0.0, 0.0)


def test_pod_time_is_cut_to_the_measurement_window() -> None:
    """Created 5 s before, gone never: 60 s inside a period of 60 s."""
    assert timeline("a", 0, 1, None).seconds_between(5 * SECOND, 65 * SECOND) == 60
    assert timeline("a", 0, 1, 10).seconds_between(5 * SECOND, 65 * SECOND) == 5
    assert timeline("a", 70, 71, None).seconds_between(5 * SECOND, 65 * SECOND) == 0


def test_idle_ratio_of_half_used_pods() -> None:
    """100 pod-seconds with 4 writes in flight hold 400 s of work; 100 000 x 2 ms are 200 s."""
    assert idle_ratio(100, 100_000, 2000.0) == 0.5
    assert idle_ratio(0, 1, 2000.0) is None


def test_idle_ratio_never_falls_below_zero() -> None:
    """Rounding of process_ms may count a little more work than time."""
    assert idle_ratio(1, 1001, 1000.0) == 0


def test_zero_partition_time_counts_from_ready_to_the_first_partition() -> None:
    """Ready at 2 s, first partition at 5 s: 3 s empty; the revoke at 20 s adds 1 s."""
    events = [
        event(3, "a", "joined"),
        event(5, "a", "assigned", {0}),
        event(20, "a", "revoked", set()),
        event(21, "a", "assigned", {1}),
        event(30, "a", "left"),
    ]

    spent = zero_partition_seconds(events, {"a": timeline("a", 0, 2, 30)}, 0, 100 * SECOND)

    assert spent == {"a": pytest.approx(4)}


def test_a_pod_that_never_got_a_partition_is_empty_all_its_time() -> None:
    """Ready at 2 s, gone at 50 s."""
    events = [event(3, "a", "joined"), event(4, "a", "assigned", set())]

    spent = zero_partition_seconds(events, {"a": timeline("a", 0, 2, 50)}, 0, 100 * SECOND)

    assert spent == {"a": pytest.approx(48)}


def test_a_pod_that_never_got_ready_is_no_idle_pod() -> None:
    """It was starting up all the time."""
    assert zero_partition_seconds([], {"a": timeline("a", 0, None, None)}, 0, 10 * SECOND) == {}


def crowd(members: int) -> list[GroupEvent]:
    """So many members on two partitions; the first two get one each."""
    pods = [f"p{i}" for i in range(members)]
    joins = [event(i / 10, pod, "joined") for i, pod in enumerate(pods)]
    grants = [
        event(1 + i / 10, pod, "assigned", {i} if i < 2 else set()) for i, pod in enumerate(pods)
    ]
    return [*joins, *grants]


def test_surplus_pods_are_named_with_their_evidence() -> None:
    """Four members on two partitions: two got none and did nothing."""
    events = crowd(4)

    found = surplus(
        events,
        episode_spans(events),
        TopicPartitions(2),
        zero_seconds={"p2": 30.0, "p3": 29.0},
        records_done={"p0": 10, "p1": 20},
    )

    assert [(pod.pod, pod.records_done) for pod in found.pods] == [("p2", 0), ("p3", 0)]
    assert found.pods[0].zero_partition_seconds == 30
    assert found.is_idle is True
    assert found.max_members == 4


def test_a_surplus_pod_that_did_records_is_not_idle() -> None:
    """p3 shows up in the ledger without ever owning a partition."""
    events = crowd(4)

    found = surplus(
        events,
        episode_spans(events),
        TopicPartitions(2),
        zero_seconds={},
        records_done={"p0": 1, "p3": 5},
    )

    assert found.is_idle is False
    assert "p3" in found.text


def test_surplus_without_accounting_proves_nothing() -> None:
    """Assignments alone do not show that nothing was processed."""
    events = crowd(3)

    found = surplus(
        events, episode_spans(events), TopicPartitions(2), zero_seconds={}, records_done=None
    )

    assert found.is_idle is None
    assert found.pods[0].records_done is None


def test_as_many_members_as_partitions_have_no_surplus() -> None:
    """There was no occasion to judge."""
    events = crowd(2)

    found = surplus(
        events, episode_spans(events), TopicPartitions(2), zero_seconds={}, records_done={}
    )

    assert (found.is_idle, found.max_members, found.pods) == (None, 2, ())


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
