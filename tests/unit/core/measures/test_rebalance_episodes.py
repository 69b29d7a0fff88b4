"""Episodes of the group and what set them off."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.group_story import SECOND, change, event, timeline

from lagbench.core.measures.checks import rebalances_within
from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.rebalance_episodes import (
    GroupLook,
    WatchedGroup,
    episode_spans,
    episode_trigger,
)
from lagbench.core.measures.replica_changes import ReplicaPods, replica_pods
from lagbench.core.measures.replica_steps import ReplicaChange


def triggers(
    events: list[GroupEvent], steps: list[ReplicaChange], created: dict[str, float] | None = None
) -> list[str]:
    """Return what set off each episode; ``created``: seconds at which pods were created."""
    timelines = {pod: timeline(pod, at) for pod, at in (created or {}).items()}
    pods = replica_pods(steps, events, timelines)
    return [episode_trigger(span, pods)[0] for span in episode_spans(events)]


def members(second: float, *owned: tuple[str, set[int]]) -> list[GroupEvent]:
    """Return joins and assignments at one instant."""
    joins = [event(second, pod, "joined") for pod, _ in owned]
    return [*joins, *(event(second + 0.1, pod, "assigned", what) for pod, what in owned)]


START = [
    event(0, "a", "joined"),
    event(0.1, "b", "joined"),
    event(1, "a", "assigned", {0, 1}),
    event(1, "b", "assigned", {2, 3}),
]


def test_the_start_is_one_episode_until_everything_is_owned() -> None:
    """Two joins and two assignments: one episode of 1 s from no member to two."""
    (span,) = episode_spans(START)

    assert (span.started_at, span.ended_at) == (0, SECOND)
    assert (span.members_before, span.members_after) == (0, 2)
    assert episode_trigger(span, ReplicaPods())[0] == "start"


def test_a_cooperative_scale_up_is_one_episode() -> None:
    """Pod c joins, a gives up 1, three seconds later c gets it: open while 1 has no owner."""
    more = [
        event(30, "c", "joined"),
        event(30.2, "a", "revoked", {0}),
        event(33.2, "c", "assigned", {1}),
    ]

    first, second = episode_spans([*START, *more])

    assert (second.started_at, second.ended_at) == (30 * SECOND, round(33.2 * SECOND))
    assert second.joined == ("c",)
    assert second.partitions_moved == 1
    assert (second.members_before, second.members_after) == (2, 3)
    assert first.ended_at is not None
    pods = replica_pods([change(28, 2, 3)], [*START, *more], {})
    trigger, _, steps = episode_trigger(second, pods)
    assert [step.at for step in steps] == [28 * SECOND]
    assert trigger == "scale_up"


@pytest.mark.parametrize(
    ("more", "joined"),
    [
        pytest.param(
            [
                event(30, "a", "revoked", {0}),
                event(30.5, "c", "assigned", {1}),
                event(33, "b", "revoked", {2}),
                event(33.5, "d", "assigned", {3}),
            ],
            [(30, ("c",)), (33, ("d",))],
            id="more than 2 s of quiet with everything owned ends an episode",
        ),
        pytest.param(
            [
                event(30, "c", "joined"),
                event(34, "a", "revoked", {0}),
                event(34.5, "c", "assigned", {1}),
            ],
            [(30, ("c",))],
            id="under KIP-848 a hears of the new member at its next heartbeat",
        ),
    ],
)
def test_an_episode_ends_with_quiet(
    more: list[GroupEvent], joined: list[tuple[int, tuple[str, ...]]]
) -> None:
    """The start is one of its own."""
    spans = episode_spans([*START, *more])

    assert [(span.started_at // SECOND, span.joined) for span in spans[1:]] == joined


def test_a_scale_down_begins_with_the_sigterm() -> None:
    """Pod b is asked at 50, hands over, is gone; a owns all at 51."""
    more = [
        event(50, "b", "sigterm"),
        event(50.1, "b", "revoked", set()),
        event(50.2, "b", "left"),
        event(51, "a", "assigned", {0, 1, 2, 3}),
    ]

    span = episode_spans([*START, *more])[1]

    assert (span.started_at, span.ended_at) == (50 * SECOND, 51 * SECOND)
    assert span.left == ("b",)
    assert span.partitions_moved == 2
    assert triggers([*START, *more], [change(49.9, 2, 1)]) == ["start", "scale_down"]


def test_a_death_lasts_until_the_group_noticed() -> None:
    """Killed at 50, session timeout 45 s: the partitions have no owner for 45 s, or never again."""
    died = [*START, event(50, "b", "died")]
    taken_over = [*died, event(95, "a", "assigned", {0, 1, 2, 3})]
    span, open_end = episode_spans(taken_over)[1], episode_spans(died)[1]

    assert (span.ended_at, span.died) == (95 * SECOND, ("b",))
    assert (open_end.ended_at, open_end.unowned) == (None, (2, 3))
    trigger, text, _ = episode_trigger(span, replica_pods([change(49, 2, 1)], taken_over, {}))
    assert trigger == "pod_death"
    assert "b died" in text


BEFORE = {"a": -1.0, "b": -1.0}


@pytest.mark.parametrize(
    ("more", "steps", "created", "found"),
    [
        # A join needs a step before it that created the pod.
        (members(30, ("c", {0})), [], BEFORE | {"c": 29}, ["other"]),
        (members(30, ("c", {0})), [change(20, 3, 2)], BEFORE | {"c": 29}, ["other"]),
        (members(30, ("c", {0})), [change(40, 2, 3)], BEFORE | {"c": 29}, ["other"]),
        # A node that needs ten minutes to start the pod makes its join no less a scale step.
        (members(620, ("c", {0})), [change(20, 2, 3)], BEFORE | {"c": 20.1}, ["scale_up"]),
        (members(620, ("c", {0})), [change(20, 2, 3)], {}, ["scale_up"]),
        # A step makes no more pods than it asked for: d replaces one that was deleted by hand.
        (
            [*members(21, ("c", {0})), *members(300, ("d", {1}))],
            [change(20, 2, 3)],
            BEFORE | {"c": 20.1, "d": 299.0},
            ["scale_up", "other"],
        ),
        # A container that was started again is no new pod.
        (
            [
                *members(21, ("c", {0})),
                event(50, "c", "left"),
                event(50.5, "a", "assigned", {0, 1}),
                *members(60, ("c", {0})),
            ],
            [change(20, 2, 3)],
            BEFORE | {"c": 20.1},
            ["scale_up", "other", "other"],
        ),
    ],
)
def test_a_pod_belongs_to_the_step_that_created_it(
    more: list[GroupEvent],
    steps: list[ReplicaChange],
    created: dict[str, float],
    found: list[str],
) -> None:
    """However long a node took to start it."""
    assert triggers([*START, *more], steps, created) == ["start", *found]


def test_a_partition_without_a_known_owner_merges_nothing() -> None:
    """Partition 3 belongs to a stranger from the start: two steps 15 s apart stay two."""
    start = members(0, ("a", {0, 1}), ("b", {2}))
    more = [*members(20, ("c", {1})), *members(35, ("d", {2}))]

    found = triggers([*start, *more], [change(19, 2, 3), change(34, 3, 4)])

    assert found == ["start", "scale_up", "scale_up"]


WAITING = [
    event(20, "c", "joined"),
    event(20.1, "a", "revoked", {1}),
    event(20.2, "c", "assigned", set()),
]


def test_a_partition_that_waits_keeps_its_step_open_and_hides_no_later_one() -> None:
    """It is never seen again, or after 70 s: too long for an episode, but the step settles then."""
    lost = [*START, *WAITING, *members(35, ("d", {2}))]
    late = episode_spans([*START, *WAITING, event(90, "c", "assigned", {0})])[1]

    assert triggers(lost, [change(19, 2, 3), change(34, 3, 4)])[1:] == ["scale_up"] * 2
    span = episode_spans(lost)[1]
    assert (span.ended_at, span.unowned, span.settled_at) == (None, (0,), None)
    assert (late.ended_at, late.settled_at) == (None, 90 * SECOND)


def test_a_death_in_a_scale_step_leaves_it_one() -> None:
    """Pod b dies while c joins: what the step cost is still judged, and the death is named."""
    more = [
        event(20, "c", "joined"),
        event(20.5, "b", "died"),
        event(30, "c", "assigned", {2, 3}),
    ]
    pods = replica_pods([change(19, 2, 3)], [*START, *more], {})

    trigger, text, _ = episode_trigger(episode_spans([*START, *more])[1], pods)

    assert trigger == "scale_up"
    assert "1 died" in text


REBALANCING = "PREPARING_REBALANCING"
Members = dict[str, list[int]]
A: Members = {"a": [0, 1]}
AB: Members = {"a": [0], "b": [1]}


def watch(*looks: tuple[float, Members, str] | tuple[float, Members]) -> WatchedGroup:
    """Return the watch after the looks: instant, partitions by member, state (STABLE)."""
    watched: WatchedGroup | None = None
    for at, members, *state in looks:
        held = [(name, tuple(("t", n) for n in numbers)) for name, numbers in members.items()]
        look = GroupLook.of(at, state[0] if state else "STABLE", held)
        watched = WatchedGroup.first(look) if watched is None else watched.after(look)
    assert watched is not None
    return watched


@pytest.mark.parametrize(
    ("looks", "rebalances"),
    [
        # The order in which a broker lists the members does not count.
        ([(0, AB), (1, {"b": [1], "a": [0]}), (2, AB)], 0),
        ([(0, A), (1, AB)], 1),
        # A restarted consumer has another member id, with the same partitions.
        ([(0, {"old": [0, 1]}), (1, {"new": [0, 1]})], 1),
        # One in progress counts once, however many looks see it, also at the first look.
        (
            [(0, A), (1, {}, REBALANCING), (5, {}, "COMPLETING_REBALANCING"), (9, AB), (10, AB)],
            1,
        ),
        ([(0, {}, REBALANCING), (1, AB), (9, AB)], 1),
        ([(0, AB), (1, {}, REBALANCING), (2, AB)], 1),  # its result is the same assignment
        ([(0, A), (1, {"a": [0], "b": []}), (2, AB)], 1),  # two rounds of an incremental one
        ([(0, A), (1, AB), (2, AB), (3.5, A)], 2),  # after two quiet seconds
        ([(0, A), (5, AB), (10, A)], 2),
    ],
)
def test_a_rebalance_is_a_movement_between_two_looks(looks: list[Any], rebalances: int) -> None:
    """Instant, partitions by member, state (STABLE)."""
    assert watch(*looks).rebalances == rebalances


@pytest.mark.parametrize(
    ("looks", "limit", "ended_at", "holds"),
    [
        ([(0, A), (1, AB)], 1, None, True),
        ([(0, A), (1, AB), (5, A)], 1, None, False),
        ([(0, {}, "DEAD"), (1, {}, "DEAD")], 1, None, None),  # a wrong name is no quiet group
        # An unwatched stretch leaves few unknown; too many are certain, whatever was missed.
        ([(0, A), (11, A)], 1, None, None),
        ([(0, A), (1, A)], 1, 12, None),
        ([(0, A), (11, AB)], 0, None, False),
        ([(0, A), (10, A)], 1, 20, True),
    ],
)
def test_the_claim_is_on_a_group_that_was_watched(
    looks: list[Any], limit: int, ended_at: float | None, holds: bool | None
) -> None:
    """Two looks may be 10 s apart, also the last one and the end."""
    watched = watch(*looks)
    end = watched.last.at_seconds if ended_at is None else ended_at

    found = rebalances_within(watched, max_rebalances=limit, ended_at_seconds=end, gap_seconds=10)

    assert found.holds is holds
    assert found.numbers == {
        "rebalances": watched.rebalances,
        "max_rebalances": limit,
        "looks": len(looks),
        "longest_gap_seconds": watched.until(end),
        "most_members": max(len(members) for _, members, *_ in looks),
    }
