"""Membership and ownership from the pods' records."""

from __future__ import annotations

from typing import Any

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState, group_events
from lagbench.core.measures.evidence.group_strangers import group_strangers, with_pods_of_members
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
    SigtermReceived,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    PodSeen,
)


def joined(at: int, pod: str) -> GroupJoined:
    """Return a join."""
    return GroupJoined(at=at, source=pod, member_id=f"m-{pod}")


def assigned(at: int, pod: str, owned: list[int]) -> PartitionsAssigned:
    """Return an assignment after which ``owned`` is held."""
    return PartitionsAssigned(
        at=at,
        source=pod,
        member_id=f"m-{pod}",
        partitions=owned,
        owned=owned,
        is_incremental=True,
        rebalance=1,
    )


def gone(at: int, pod: str) -> PodSeen:
    """Kubernetes saw the pod end."""
    return PodSeen(
        at=at + 5,
        source="recorder",
        pod=pod,
        created_at=0,
        started_at=1,
        ready_at=2,
        deleted_at=None,
        gone_at=at,
        exit_code=137,
        exit_reason="Error",
        precision_ns=1,
    )


def test_a_killed_member_dies_when_kubernetes_saw_its_end() -> None:
    """It said nothing itself, so gone_at counts and it is a death."""
    records: list[TelemetryRecord] = [joined(10, "a"), assigned(11, "a", [0]), gone(50, "a")]

    assert group_events(records)[-1] == GroupEvent(50, "a", "died")


def test_an_evicted_member_dies_though_its_object_stays() -> None:
    """The node killed it at once and left the object with phase Failed: nothing else tells it."""
    evicted = gone(50, "a")
    evicted.gone_at, evicted.phase = None, "Failed"
    records: list[TelemetryRecord] = [joined(10, "a"), assigned(11, "a", [0]), evicted]

    assert group_events(records)[-1] == GroupEvent(55, "a", "died")


def test_a_pod_that_was_asked_and_then_killed_left() -> None:
    """The grace period ran out: the SIGTERM makes it a scale-down, not a death."""
    term = SigtermReceived(at=30, source="a", queued=1, in_flight=1)
    records: list[TelemetryRecord] = [joined(10, "a"), term, gone(50, "a")]

    assert [event.kind for event in group_events(records)] == ["joined", "sigterm", "left"]


def test_a_pod_that_reported_its_end_is_not_counted_twice() -> None:
    """PodStopped and gone_at are one end."""
    stop = PodStopped(
        at=40, source="a", reason="sigterm", is_graceful=True, abandoned=0, processed_total=1
    )
    records: list[TelemetryRecord] = [joined(10, "a"), stop, gone(50, "a")]

    assert [event.kind for event in group_events(records)] == ["joined", "left"]


def test_a_pod_that_never_joined_does_not_die_in_the_group() -> None:
    """It crashed while starting: the group never knew it."""
    assert group_events([gone(50, "a")]) == []


def test_a_newer_assignment_outranks_a_silent_owner() -> None:
    """A paused pod still believes in its partition; the group gave it to another."""
    state = GroupState()

    state.apply(GroupEvent(1, "a", "assigned", frozenset({0, 1})))
    state.apply(GroupEvent(2, "b", "assigned", frozenset({1})))

    assert state.owner == {0: "a", 1: "b"}


def test_an_eager_revoke_leaves_a_member_with_nothing() -> None:
    """It stays a member and is idle."""
    state = GroupState()

    state.apply(GroupEvent(1, "a", "assigned", frozenset({0})))
    state.apply(GroupEvent(2, "a", "revoked", frozenset()))

    assert state.members == {"a"}
    assert state.idle_members() == {"a"}


def test_a_revoke_begins_before_its_record() -> None:
    """The record comes when the work in flight is done, 0.5 s after the revoke came."""
    record = PartitionsRevoked(
        at=2_000_000_000,
        source="a",
        member_id="m",
        partitions=[1],
        owned=[0],
        is_lost=False,
        in_flight=3,
        finish_seconds=0.5,
        rebalance=2,
    )

    assert group_events([record]) == [
        GroupEvent(1_500_000_000, "a", "revoking"),
        GroupEvent(2_000_000_000, "a", "revoked", frozenset({0})),
    ]


def test_a_restarted_container_that_is_killed_leaves() -> None:
    """It told its first end; the pod joined again and was then killed, which it told nobody."""
    stop = PodStopped(
        at=20, source="a", reason="failed", is_graceful=False, abandoned=0, processed_total=1
    )
    records: list[TelemetryRecord] = [
        joined(10, "a"),
        assigned(11, "a", [0]),
        stop,
        joined(30, "a"),
        assigned(31, "a", [0]),
        gone(50, "a"),
    ]
    state = GroupState()

    for event in group_events(records):
        state.apply(event)

    assert group_events(records)[-1] == GroupEvent(50, "a", "died")
    assert state.members == set()


SECOND = 1_000_000_000

PODS = ("consumer-a", "consumer-b")


def pod(name: str, *, gone_at: int | None = None) -> PodSeen:
    """Return a pod that was there all the time, or until ``gone_at``."""
    return PodSeen(
        at=0,
        source="recorder",
        pod=name,
        created_at=0,
        started_at=1,
        ready_at=2,
        deleted_at=None,
        gone_at=gone_at,
        exit_code=None,
        exit_reason="",
        precision_ns=0,
    )


def readings(*client_ids: str) -> list[Any]:
    """Return ten readings of a group with these members."""
    found: list[Any] = [pod(name) for name in PODS]
    for second in range(20, 30):
        at = second * SECOND
        members = [GroupMember(f"m-{n}", name, "/h", [n]) for n, name in enumerate(client_ids)]
        found.append(GroupMembers(at=at, source="recorder", members=members))
        sample = GroupSample(
            at=at,
            source="recorder",
            state="STABLE",
            members=len(members),
            members_without_partitions=0,
        )
        found.append(sample)
    return found


def strangers(records: list[Any], **settings: Any) -> list[tuple[str | None, int]]:
    """Return client id and number of each stranger."""
    consumer = ConsumerSettings.model_validate(settings)
    found = group_strangers(
        with_pods_of_members(records, consumer), members_per_pod=consumer.members_per_pod
    )
    return [(one.client_id, one.members) for one in found]


def test_a_member_is_a_pods_by_the_name_in_its_client_id() -> None:
    """An id that holds no pod of the run is foreign."""
    records = readings("orders-consumer-a", "orders-consumer-b", "orders-consumer-z")

    assert strangers(records, client_id="orders-{pod}") == [("orders-consumer-z", 1)]


def test_without_names_the_number_tells() -> None:
    """As many members as pods are the run's; one more is foreign."""
    assert strangers(readings("rdkafka", "rdkafka")) == []
    assert strangers(readings("rdkafka", "rdkafka", "rdkafka")) == [(None, 1)]


def test_a_pod_may_have_several_members() -> None:
    """Two threads of two pods are four members."""
    records = readings("rdkafka", "rdkafka", "rdkafka", "rdkafka")

    assert strangers(records, members_per_pod=2) == []
    named = readings("t-consumer-a", "t-consumer-a", "t-consumer-b", "t-consumer-b", "other")
    assert strangers(named, members_per_pod=2, client_id="t-{pod}") == [("other", 1)]


def test_a_dead_pod_stays_a_member_for_the_session_of_its_scenario() -> None:
    """A member 100 s after its pod has gone is foreign at 45 s, and not at 120 s."""
    records = [pod("consumer-a"), pod("consumer-b", gone_at=SECOND)]
    records += [
        GroupSample(
            at=second * SECOND,
            source="recorder",
            state="stable",
            members=2,
            members_without_partitions=0,
        )
        for second in range(90, 110)
    ]

    assert [one.members for one in group_strangers(records)] == [1]
    assert group_strangers(records, session_seconds=120.0) == ()
