"""The load of an observed group and the rate of its pods, from offsets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lagbench.core.measures.evidence.lag_readings import LagSeries, lag_series
from lagbench.core.measures.evidence.observed_group import (
    member_pods,
    observed_members,
    observed_pod_rate,
    observed_rates,
)
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
    PodStopped,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    PodSeen,
)

SECOND = 1_000_000_000


def _series(ends: list[int], commits: list[int | None]) -> LagSeries:
    at = [second * SECOND for second in range(len(ends))]
    return lag_series(at, [0] * len(ends), ends, commits, first_partitions=1)


def _group(seconds: int, members: int = 2) -> list[GroupSample]:
    return [
        GroupSample(
            at=second * SECOND,
            source="o",
            state="stable",
            members=members,
            members_without_partitions=0,
        )
        for second in range(seconds)
    ]


def test_the_load_is_what_the_log_took() -> None:
    """A step in the growth of the end offset is a step in the load; the last row ends it."""
    ends = [1000 + 100 * second for second in range(11)]
    ends += [ends[-1] + 500 * (second + 1) for second in range(10)]
    lag = _series(ends, [0] * len(ends))
    rates = observed_rates(lag, from_at=0, until_at=20 * SECOND)
    assert rates == [(0, 100), (5, 100), (10, 500), (15, 500), (20, 0)]


def test_the_load_is_not_known_from_one_sample() -> None:
    """A single reading shows no growth."""
    assert observed_rates(_series([5], [0]), from_at=0, until_at=SECOND) == []


def test_a_recreated_topic_has_no_negative_load() -> None:
    """The end offset falls to 0: the load before and after the fall counts, the fall itself not."""
    ends = [10_000 + 100 * second for second in range(11)]
    ends += [200 * second for second in range(10)]
    rates = observed_rates(_series(ends, [0] * 21), from_at=0, until_at=20 * SECOND)
    assert rates == [(0, 100), (5, 100), (10, 160), (15, 200), (20, 0)]


def test_a_pods_rate_does_not_reach_over_a_cut_log() -> None:
    """The committed offset falls with the end offset, and the rate is that of the longer part."""
    ends = [90_000 + 300 * second for second in range(20)]
    ends += [60_000 + 300 * second for second in range(30)]
    commits: list[int | None] = [80_000 + 100 * second for second in range(20)]
    commits += [100 * second for second in range(30)]
    found = observed_pod_rate(_group(50, members=1), _series(ends, commits))
    assert found.per_second == pytest.approx(100)


def test_the_rate_of_a_pod_is_that_of_a_busy_member() -> None:
    """Two members that commit 200 a second while thousands wait do 100 a second each."""
    ends = [10_000 + 300 * second for second in range(30)]
    commits: list[int | None] = [200 * second for second in range(30)]
    found = observed_pod_rate(_group(30), _series(ends, commits))
    assert found.per_second == pytest.approx(100)
    assert "2 members" in found.source


def test_a_group_without_waiting_work_shows_no_rate() -> None:
    """A group that keeps up shows the load, not what it could do: there is no value."""
    ends = [300 * second for second in range(60)]
    commits: list[int | None] = [max(0, end - 100) for end in ends]
    assert observed_pod_rate(_group(60), _series(ends, commits)).per_second is None


def test_commits_of_an_idle_group_are_not_taken_for_a_busy_one() -> None:
    """The saw of a commit in five seconds has five seconds of lag at its top and none after it."""
    ends = [100 * second for second in range(60)]
    commits: list[int | None] = [100 * (second // 5) * 5 for second in range(60)]
    assert observed_pod_rate(_group(60), _series(ends, commits)).per_second is None


def test_a_busy_stretch_is_found_beside_an_idle_one() -> None:
    """Only the seconds in which work waited count."""
    commits: list[int | None] = [50 * second for second in range(30)]
    ends = [int(c or 0) + 10 for c in commits]
    for second in range(30):
        commits.append(1450 + 200 * (second + 1))
        ends.append(30_000)
    found = observed_pod_rate(_group(60, members=1), _series(ends, commits))
    assert found.per_second == pytest.approx(200, rel=0.05)


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
