"""Members of an observed group, from the broker's descriptions alone."""

from __future__ import annotations

from msgspec.structs import replace

from lagbench.core.measures.evidence.observed_members import member_pods, observed_members
from lagbench.core.telemetry.consumer import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
)
from lagbench.core.telemetry.recorder import GroupMember, GroupMembers, GroupSample, PodSeen
from lagbench.core.telemetry.records import TelemetryRecord

NS = 1_000_000_000


def _members(second: int, *members: GroupMember, state: str = "stable") -> list[TelemetryRecord]:
    at = second * NS
    return [
        GroupSample(
            at=at, source="o", state=state, members=len(members), members_without_partitions=0
        ),
        GroupMembers(at=at, source="o", members=list(members)),
    ]


def _member(
    number: int, *partitions: int, client: str = "rdkafka", host: str = "/10.0.0.1"
) -> GroupMember:
    return GroupMember(
        member_id=f"{client}-{number}{number}{number}-x",
        client_id=client,
        host=host,
        partitions=list(partitions),
    )


def _pod(name: str, address: str, *, gone_at: int | None = None) -> PodSeen:
    return PodSeen(
        at=0,
        source="o",
        pod=name,
        created_at=0,
        started_at=None,
        ready_at=None,
        deleted_at=None,
        gone_at=gone_at,
        exit_code=None,
        exit_reason="",
        precision_ns=NS,
        address=address,
    )


def test_a_member_that_comes_and_goes_is_reported() -> None:
    """Joins, assignments and ends are at the description that first shows them."""
    records = [
        *_members(1, _member(1, 0, 1)),
        *_members(2, _member(1, 0), _member(2, 1)),
        *_members(3, _member(1, 0, 1)),
    ]
    found = observed_members(records)
    second = [record for record in found if record.source.endswith("222-x")]
    assert [(type(r), r.at) for r in second] == [
        (GroupJoined, 2 * NS),
        (PartitionsAssigned, 2 * NS),
        (PodStopped, 3 * NS),
    ]
    first = [r.owned for r in found if isinstance(r, PartitionsAssigned) and r not in second]
    assert first == [[0, 1], [0], [0, 1]]


def test_a_rebalance_under_way_takes_no_partition_away() -> None:
    """While a classic group rebalances its members show no partitions: they are not known then."""
    records = [
        *_members(1, _member(1, 0, 1)),
        *_members(2, _member(1), state="preparing_rebalancing"),
        *_members(3, _member(1, 0, 1)),
    ]
    found = observed_members(records)
    assigned = [record for record in found if isinstance(record, PartitionsAssigned)]
    assert [record.owned for record in assigned] == [[0, 1]]
    revoked = [record for record in found if isinstance(record, PartitionsRevoked)]
    assert [(record.at, record.owned) for record in revoked] == [(2 * NS, [0, 1])]


def test_a_member_has_the_name_of_its_pod() -> None:
    """The pod is known by its name in the client id, or by an address that no other pod has."""
    records = [
        _pod("shop-a", "10.0.0.1"),
        _pod("shop-b", "10.0.0.2"),
        *_members(
            1,
            _member(1, 0, client="client-of-shop-b", host="/10.0.0.9"),
            _member(2, 1, host="/10.0.0.1"),
        ),
    ]
    joined = {r.source for r in observed_members(records) if isinstance(r, GroupJoined)}
    assert joined == {"shop-a", "shop-b"}
    assert member_pods(records) == 2


def test_a_member_that_was_read_before_its_pod_has_its_name_too() -> None:
    """The watch of the pods may log in for longer than the first reading of the group takes."""
    late = [
        replace(_pod(name, address), at=3 * NS)
        for name, address in (("shop-a", "10.0.0.1"), ("shop-b", "10.0.0.2"))
    ]
    records = [
        *_members(1, _member(1, 0, client="client-of-shop-b"), _member(2, 1, host="/10.0.0.1")),
        *late,
        *_members(4, _member(1, 0, client="client-of-shop-b"), _member(2, 1, host="/10.0.0.1")),
    ]
    joined = {r.source for r in observed_members(records) if isinstance(r, GroupJoined)}
    assert joined == {"shop-a", "shop-b"}


def test_an_address_that_two_pods_had_one_after_the_other_names_the_one_that_was_there() -> None:
    """Kubernetes gives the address of a pod that is gone to another."""
    records = [
        replace(_pod("shop-a", "10.0.0.1", gone_at=10 * NS), at=10 * NS),
        replace(_pod("shop-b", "10.0.0.1"), at=30 * NS, created_at=30 * NS),
        *_members(1, _member(1, 0)),
        *_members(40, _member(2, 0)),
    ]
    joined = [r.source for r in observed_members(records) if isinstance(r, GroupJoined)]
    assert joined == ["shop-a", "shop-b"]


def test_an_address_of_two_pods_names_neither() -> None:
    """On one machine all pods have the loopback address, so it says nothing."""
    records = [
        _pod("shop-a", "127.0.0.1"),
        _pod("shop-b", "127.0.0.1"),
        *_members(1, _member(1, 0, client="one", host="/127.0.0.1")),
    ]
    joined = [r.source for r in observed_members(records) if isinstance(r, GroupJoined)]
    assert joined == ["one"]
    assert member_pods(records) == 0


def test_several_members_of_a_pod_are_one() -> None:
    """A pod with two consumers owns the partitions of both, and leaves with the last one."""
    both = (_member(1, 0, client="shop-a-1"), _member(2, 1, client="shop-a-2"))
    records = [
        _pod("shop-a", ""),
        *_members(1, *both),
        *_members(2, both[0]),
        *_members(3),
    ]
    found = observed_members(records)
    owned = [r.owned for r in found if isinstance(r, PartitionsAssigned)]
    assert owned == [[0, 1], [0]]
    assert [r.at for r in found if isinstance(r, PodStopped)] == [3 * NS]
