"""Episodes of the group and what set them off."""

import pytest

from lagbench.core.group_events import EventKind, GroupEvent
from lagbench.core.measures import ReplicaChange
from lagbench.core.rebalance import (
    EpisodeSpan,
    episode_spans,
    episode_trigger,
    rebalance_protocol,
)

SECOND = 1_000_000_000


def event(second: float, pod: str, kind: EventKind, owned: set[int] | None = None) -> GroupEvent:
    """Return an event at ``second``."""
    return GroupEvent(
        round(second * SECOND), pod, kind, None if owned is None else frozenset(owned)
    )


def change(second: float, before: int, after: int) -> ReplicaChange:
    """Return a scale step by the HPA."""
    return ReplicaChange(
        at=round(second * SECOND),
        replicas_before=before,
        replicas_after=after,
        by="hpa",
        reason="",
        precision_seconds=0,
        is_reversal=False,
        is_flip=False,
    )


START = [
    event(0, "a", "joined"),
    event(0.1, "b", "joined"),
    event(1, "a", "assigned", {0, 1}),
    event(1, "b", "assigned", {2, 3}),
]


def test_the_start_is_one_episode_until_everything_is_owned() -> None:
    """Two joins and two assignments: one episode of 1 s from no member to two."""
    (span,) = episode_spans(START, partitions=4)

    assert (span.started_at, span.ended_at) == (0, SECOND)
    assert (span.members_before, span.members_after) == (0, 2)
    assert episode_trigger(span, [])[0] == "start"


def test_a_cooperative_scale_up_is_one_episode() -> None:
    """Pod c joins, a gives up 1, three seconds later c gets it: open while 1 has no owner."""
    more = [
        event(30, "c", "joined"),
        event(30.2, "a", "revoked", {0}),
        event(33.2, "c", "assigned", {1}),
    ]

    first, second = episode_spans([*START, *more], partitions=4)

    assert (second.started_at, second.ended_at) == (30 * SECOND, round(33.2 * SECOND))
    assert second.joined == ("c",)
    assert second.partitions_moved == 1
    assert (second.members_before, second.members_after) == (2, 3)
    assert first.ended_at is not None
    trigger, text = episode_trigger(second, [change(28, 2, 3)])
    assert trigger == "scale_up"
    assert text == "2 to 3 replicas by hpa; 1 joined"


def test_two_steps_far_apart_are_two_episodes() -> None:
    """More than 2 s of quiet with everything owned ends an episode."""
    more = [
        event(30, "a", "revoked", {0}),
        event(30.5, "c", "assigned", {1}),
        event(33, "b", "revoked", {2}),
        event(33.5, "d", "assigned", {3}),
    ]

    assert len(episode_spans([*START, *more], partitions=4)) == 3


def test_an_episode_waits_for_the_next_heartbeat() -> None:
    """Under KIP-848 pod a hears of the new member 4 s after it joined: still one episode."""
    more = [
        event(30, "c", "joined"),
        event(34, "a", "revoked", {0}),
        event(34.5, "c", "assigned", {1}),
    ]

    spans = episode_spans([*START, *more], partitions=4)

    assert [(span.started_at // SECOND, span.joined) for span in spans[1:]] == [(30, ("c",))]


def test_a_scale_down_begins_with_the_sigterm() -> None:
    """Pod b is asked at 50, hands over, is gone; a owns all at 51."""
    more = [
        event(50, "b", "sigterm"),
        event(50.1, "b", "revoked", set()),
        event(50.2, "b", "left"),
        event(51, "a", "assigned", {0, 1, 2, 3}),
    ]

    span = episode_spans([*START, *more], partitions=4)[1]

    assert (span.started_at, span.ended_at) == (50 * SECOND, 51 * SECOND)
    assert span.left == ("b",)
    assert span.partitions_moved == 2
    assert episode_trigger(span, [change(49.9, 2, 1)])[0] == "scale_down"


def test_a_death_lasts_until_the_group_noticed() -> None:
    """Killed at 50, session timeout 45 s: the partitions have no owner for 45 s."""
    more = [event(50, "b", "died"), event(95, "a", "assigned", {0, 1, 2, 3})]

    span = episode_spans([*START, *more], partitions=4)[1]

    assert span.ended_at == 95 * SECOND
    assert span.died == ("b",)
    trigger, text = episode_trigger(span, [change(49, 2, 1)])
    assert trigger == "pod_death"
    assert "b died" in text


def test_partitions_without_owner_leave_the_end_open() -> None:
    """Nobody takes over: no end, and the partitions are named."""
    span = episode_spans([*START, event(50, "b", "died")], partitions=4)[1]

    assert span.ended_at is None
    assert span.unowned == (2, 3)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [([], "other"), ([change(0, 3, 2)], "other"), ([change(-200, 2, 3)], "other")],
)
def test_a_join_needs_a_step_up_shortly_before(steps: list[ReplicaChange], expected: str) -> None:
    """No step, one in the other direction or one long ago: not explained by scaling."""
    span = EpisodeSpan(10 * SECOND, 11 * SECOND, ("c",), (), (), 2, 3, 1, ())

    assert episode_trigger(span, steps)[0] == expected


@pytest.mark.parametrize(
    ("balancer", "protocol"),
    [
        ("range", "eager"),
        ("roundrobin", "eager"),
        ("cooperative-sticky", "cooperative"),
        ("consumer", "consumer"),
        ("new", None),
    ],
)
def test_protocol_of_each_balancer(balancer: str, protocol: str | None) -> None:
    """Both range and roundrobin stop the world."""
    assert rebalance_protocol(balancer) == protocol
