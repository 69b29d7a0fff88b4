"""What the pods' time was used for."""

import pytest
from tests.fakes.group_story import SECOND, event, timeline

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.in_force import TopicPartitions
from lagbench.core.measures.pods.pod_time import idle_ratio, surplus, zero_partition_seconds
from lagbench.core.measures.rebalance.episodes import episode_spans


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
