"""Membership and ownership from the pods' records."""

from __future__ import annotations

import pytest
from tests.fakes.telemetry import SECOND, of, pod_seen

from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState, group_events
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
    SigtermReceived,
)
from lagbench.core.telemetry.records_of_recorder import (
    PodSeen,
)


def joined(at: int, pod: str) -> GroupJoined:
    """Return a join."""
    return of(GroupJoined, at, pod)


def assigned(at: int, pod: str, owned: list[int]) -> PartitionsAssigned:
    """Return an assignment after which ``owned`` is held."""
    return of(PartitionsAssigned, at, pod, owned=owned)


def gone(at: int, pod: str) -> PodSeen:
    """Kubernetes saw the pod end."""
    return pod_seen(pod, gone=at, at=at + 5)


TERM, STOP = of(SigtermReceived, 30, "a"), of(PodStopped, 40, "a")
EVICTED = pod_seen("a", at=55, phase="Failed")


@pytest.mark.parametrize(
    ("records", "kinds"),
    [
        pytest.param(
            [joined(10, "a"), assigned(11, "a", [0]), gone(50, "a")],
            "joined assigned died:50",
            id="killed: it said nothing itself",
        ),
        pytest.param(
            [joined(10, "a"), assigned(11, "a", [0]), EVICTED],
            "joined assigned died:55",
            id="evicted: its object stays",
        ),
        pytest.param(
            [joined(10, "a"), TERM, gone(50, "a")],
            "joined sigterm left:50",
            id="asked and then killed: the grace period ran out",
        ),
        pytest.param(
            [joined(10, "a"), STOP, gone(50, "a")], "joined left:40", id="reported: one end"
        ),
        pytest.param([gone(50, "a")], "", id="it crashed while starting: it never joined"),
        pytest.param(
            [joined(10, "a"), of(PodStopped, 20, "a"), joined(30, "a"), gone(50, "a")],
            "joined left joined died:50",
            id="a container that was started again and killed",
        ),
    ],
)
def test_a_member_ends_once_by_what_ended_it(records: list[TelemetryRecord], kinds: str) -> None:
    """The kinds of the events, and the second of the last one."""
    events = group_events(records)
    state = GroupState()
    for event in events:
        state.apply(event)

    found = " ".join(event.kind for event in events)
    assert f"{found}:{events[-1].at // SECOND}" == kinds if events else not kinds
    assert state.members == set()


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
    record = of(PartitionsRevoked, 2, "a", owned=[0], finish_seconds=0.5)

    assert group_events([record]) == [
        GroupEvent(1_500_000_000, "a", "revoking"),
        GroupEvent(2_000_000_000, "a", "revoked", frozenset({0})),
    ]
