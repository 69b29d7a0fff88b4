"""Membership and ownership from the pods' records."""

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState, group_events
from lagbench.core.telemetry.consumer import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
    SigtermReceived,
)
from lagbench.core.telemetry.recorder import PodSeen
from lagbench.core.telemetry.records import TelemetryRecord


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
