"""The assignment of a group is followed by what its coordinator reports."""

from __future__ import annotations

from tests.unit.core.live.test_course import LIMITS, SLOS, cell

from lagbench.core.live import Course, LiveLine, decode_line, encode_line
from lagbench.core.telemetry import GroupMember, GroupMembers, GroupSample


def members(*held: tuple[str, list[int]]) -> GroupMembers:
    """Return members with these client ids and partitions."""
    found = [
        GroupMember(member_id=f"m-{number}", client_id=name, host="", partitions=partitions)
        for number, (name, partitions) in enumerate(held)
    ]
    return GroupMembers(at=1, source="recorder", members=found)


def group(state: str) -> GroupSample:
    """Return a sample of the group in a state."""
    return GroupSample(
        at=1, source="recorder", state=state, members=0, members_without_partitions=0
    )


def changes(*records: GroupSample | GroupMembers) -> dict[str, list[int] | None] | None:
    """Return what the last record changes."""
    course = Course(cell(), SLOS, LIMITS)
    for record in records[:-1]:
        course.take(record, 1)
    course.line(1)
    course.take(records[-1], 1)
    return course.line(1).assigned


def test_an_idle_member_is_told_apart_from_one_that_left() -> None:
    """More pods than partitions leave idle members, which are there."""
    before = members(("a", [0, 1]), ("b", [2]), ("c", []))

    assert changes(before) == {"a": [0, 1], "b": [2], "c": []}
    assert changes(before, members(("a", [0, 1, 2]), ("b", []))) == {
        "a": [0, 1, 2],
        "b": [],
        "c": None,
    }


def test_members_with_one_client_id_are_one() -> None:
    """Their partitions are added: a consumer may set one client id for all of its members."""
    assert changes(members(("shop", [3, 0]), ("shop", [1]), ("shop", []))) == {"shop": [0, 1, 3]}


def test_a_rebalance_takes_no_partitions_away() -> None:
    """A classic group reports no assignment until it is stable; a member may leave all the same."""
    stable = members(("a", [0]), ("b", [1]))
    rebalancing = members(("a", []), ("c", []))

    assert changes(stable, group("preparing_rebalancing"), rebalancing) == {"b": None}
    assert changes(
        stable, group("completing_rebalancing"), rebalancing, group("stable"), rebalancing
    ) == {"a": [], "c": []}


def test_an_assignment_survives_its_encoding() -> None:
    """A reader tells an idle member and one that left apart; lines from before have no null."""
    line = LiveLine(at=1, assigned={"a": [0], "b": [], "c": None})

    assert decode_line(encode_line(line)) == line
    assert decode_line(b'{"at":1,"assigned":{"a":[]}}').assigned == {"a": []}
