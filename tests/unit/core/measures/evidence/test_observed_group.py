"""The load of an observed group and the rate of its pods, from offsets."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.fakes.telemetry import SECOND, of, pod_seen

from lagbench.core.measures.evidence.lag_readings import (
    Gap,
    LagSeries,
    gaps_between,
    gaps_text,
    lag_series,
    telemetry_gaps,
)
from lagbench.core.measures.evidence.observed_group import (
    member_pods,
    observed_members,
    observed_pod_rate,
    observed_rates,
)
from lagbench.core.measures.evidence.played_actions import (
    HIDES,
    Hidden,
    PlayedAction,
    TopicPartitions,
    topic_partitions,
)
from lagbench.core.scenario.actions import GrowPartitions, KillPod
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
    LagSample,
    PodSeen,
    ReadGap,
)


def _series(ends: list[int], commits: list[int | None]) -> LagSeries:
    at = [second * SECOND for second in range(len(ends))]
    return lag_series(at, [0] * len(ends), ends, commits, first_partitions=1)


def _group(seconds: int, members: int = 2) -> list[GroupSample]:
    return [of(GroupSample, s, state="stable", members=members) for s in range(seconds)]


GROWING = [1000 + 100 * second for second in range(11)]


@pytest.mark.parametrize(
    ("ends", "rates"),
    [
        # A step in the growth of the end offset is one in the load; the last row ends it.
        (
            [*GROWING, *[2000 + 500 * second for second in range(1, 11)]],
            [(0, 100), (5, 100), (10, 500), (15, 500), (20, 0)],
        ),
        # The topic was made again: the load before and after the fall counts, the fall not.
        (
            [*GROWING, *[200 * second for second in range(10)]],
            [(0, 100), (5, 100), (10, 160), (15, 200), (20, 0)],
        ),
        ([5], []),  # a single reading shows no growth
    ],
)
def test_the_load_is_what_the_log_took(ends: list[int], rates: list[tuple[int, int]]) -> None:
    """Seconds and messages per second."""
    lag = _series(ends, [0] * len(ends))

    assert observed_rates(lag, from_at=0, until_at=20 * SECOND) == rates


BUSY = [10_000 + 300 * second for second in range(30)]
CUT = [*[90_000 + 300 * s for s in range(20)], *[60_000 + 300 * s for s in range(30)]]
BESIDE = [*[50 * second for second in range(30)], *[1450 + 200 * (s + 1) for s in range(30)]]


@pytest.mark.parametrize(
    ("ends", "commits", "members", "rate"),
    [
        # Two members that commit 200 a second while thousands wait do 100 a second each.
        (BUSY, [200 * second for second in range(30)], 2, 100),
        # A cut log: the committed offset falls, too, and the longer part counts.
        (CUT, [*[80_000 + 100 * s for s in range(20)], *[100 * s for s in range(30)]], 1, 100),
        # A busy stretch beside an idle one: only the seconds in which work waited count.
        ([*[commit + 10 for commit in BESIDE[:30]], *[30_000] * 30], BESIDE, 1, 200),
        # A group that keeps up shows the load, not what it could do.
        ([300 * s for s in range(60)], [max(0, 300 * s - 100) for s in range(60)], 2, None),
        # The saw of a commit in five seconds has no lag after it.
        ([100 * s for s in range(60)], [100 * (s // 5) * 5 for s in range(60)], 2, None),
    ],
)
def test_the_rate_of_a_pod_is_that_of_a_busy_member(
    ends: list[int], commits: list[int], members: int, rate: float | None
) -> None:
    """None: the group was never seen busy."""
    found = observed_pod_rate(_group(len(ends), members), _series(ends, commits))

    assert found.per_second == (rate and pytest.approx(rate, rel=0.05))
    assert rate is None or f"{members} member" in found.source


NS = SECOND


def _members(second: int, *members: GroupMember, state: str = "stable") -> list[TelemetryRecord]:
    return [
        of(GroupSample, second, state=state, members=len(members)),
        of(GroupMembers, second, members=list(members)),
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


def _pod(name: str, address: str, *, gone: float | None = None, at: float = 0) -> PodSeen:
    return pod_seen(name, gone=gone, at=at, address=address)


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


@pytest.mark.parametrize("seen_at", [0, 3], ids=["before", "after"])
def test_a_member_has_the_name_of_its_pod(seen_at: int) -> None:
    """By its name in the client id, or by an address that no other pod has.

    The watch of the pods may log in for longer than the first reading of the group takes.
    """
    there = (_member(1, 0, client="client-of-shop-b", host="/10.0.0.9"), _member(2, 1))
    pods = [_pod("shop-a", "10.0.0.1", at=seen_at), _pod("shop-b", "10.0.0.2", at=seen_at)]
    records = [*pods, *_members(1, *there), *_members(4, *there)]
    joined = {r.source for r in observed_members(records) if isinstance(r, GroupJoined)}
    assert joined == {"shop-a", "shop-b"}
    assert member_pods(records) == 2


def test_an_address_that_two_pods_had_one_after_the_other_names_the_one_that_was_there() -> None:
    """Kubernetes gives the address of a pod that is gone to another."""
    records = [
        _pod("shop-a", "10.0.0.1", gone=10, at=10),
        pod_seen("shop-b", 30, address="10.0.0.1"),
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


@pytest.mark.parametrize(
    ("seconds", "is_gap"),
    [
        ([0, 1.3, 2, 3], False),  # jitter
        ([0, 2, 3], False),  # one reading lost
        ([0, 3.02], False),  # two lost
        ([0, 4], True),  # three lost
        ([0], True),  # none to the end
        ([3], False),
        ([], True),
    ],
)
def test_three_lost_readings_are_a_gap(seconds: list[float], *, is_gap: bool) -> None:
    """Two lost ones and their jitter are not; both ends of the period count."""
    instants = [round(second * SECOND) for second in seconds]

    assert bool(gaps_between(instants, 0, 4 * SECOND)) is is_gap


def test_a_gap_is_reported_with_its_length() -> None:
    """The longest gap, when it began, and how many more there are."""
    short, long = Gap(50 * SECOND, 54 * SECOND), Gap(70 * SECOND, 145 * SECOND)

    two, three = ((short, long), 10 * SECOND), ((short, long, short), None)
    found = [re.findall(r"[\d.]+", gaps_text("lag", *shown)) for shown in (two, three)]
    assert found == [["75.0", "60.0"], ["75.0", "2"]]
    assert gaps_text("lag", [], 0) == ""


def lag_sample(second: float) -> LagSample:
    """Return a reading of the recorder."""
    return of(LagSample, second)


def read_gap(second: float) -> ReadGap:
    """Return a reading that failed."""
    return of(ReadGap, second, what="lag", reason="broker away")


@pytest.mark.parametrize(
    ("failed", "seen", "gaps"),
    [
        ([10, 11, 12, 20], range(30), [("lag", 2.0), ("lag", 0.0)]),  # close together: one
        ([], [1, 2, 3, 13, 14], [("recorder", 10.0)]),  # silent
        ([], [0, 3.2], []),  # the same threshold as for an SLO
        ([], [0, 3.6], [("recorder", 3.6)]),
        ([100], [], []),  # outside of the measurement window
    ],
)
def test_failed_and_missing_readings_are_gaps(
    failed: list[float], seen: list[float], gaps: list[tuple[str, float]]
) -> None:
    """What was not read, and for how many seconds."""
    records = [read_gap(second) for second in failed] + [lag_sample(second) for second in seen]

    found = telemetry_gaps(records, from_at=0, until_at=99 * SECOND)

    assert [(gap.what, gap.gap_seconds) for gap in found] == gaps
    assert all(gap.reason == "broker away" for gap in found if gap.what == "lag")


@pytest.mark.parametrize(("problem", "last"), [("", 8), ("failed", 4)])
def test_new_partitions_count_from_the_end_of_their_action(problem: str, last: int) -> None:
    """Until it has ended, they may be missing; a growth that was not played adds none."""
    grow, kind = {"kind": "grow_partitions"}, "grow_partitions"
    planned = [
        KillPod(kind="kill_pod", at_seconds=1),
        GrowPartitions(**grow, at_seconds=10, partitions=4),
        GrowPartitions(**grow, at_seconds=20, partitions=8),
    ]
    played = [
        PlayedAction(number=0, kind="kill_pod", started_at=NS, ended_at=2 * NS),
        PlayedAction(number=1, kind=kind, started_at=10 * NS, ended_at=11 * NS),
        PlayedAction(number=2, kind=kind, started_at=20 * NS, ended_at=21 * NS, problem=problem),
    ]

    found = topic_partitions(2, planned, played)

    counts = [found.at(second * NS) for second in (0, 10, 11, 20, 21)]
    assert counts == [2, 2, 4, 4, last]
    assert (found.at(None), found.last) == (2, last)
    assert topic_partitions(2, (), ()) == TopicPartitions(2)


def test_all_of_an_added_partition_waits_until_the_first_commit() -> None:
    """It begins at 0 and the group reads it from there; one of the start may hold any lag."""
    at = [NS, NS, 2 * NS, 2 * NS, 2 * NS, 3 * NS, 3 * NS, 3 * NS]
    partition = [0, 1, 0, 1, 2, 0, 1, 2]
    ends = [10, 10, 20, 20, 7, 30, 30, 9]
    commits = [5, None, 15, 20, None, 30, 30, 4]

    found = lag_series(at, partition, ends, commits, first_partitions=2)

    assert found.by_partition[:, 2].tolist() == [0.0, 7.0, 5.0]
    assert np.isnan(found.total[0])
    assert found.total[1:].tolist() == [12.0, 5.0]


def test_a_growth_hides_only_a_rebalance_in_which_nobody_joined_or_left() -> None:
    """Its targets are no pods, so a pod that joined or died in its window is not excused."""
    until_at = round((11 + HIDES["grow_partitions"].recovery_seconds) * NS)
    hidden = Hidden(
        [
            PlayedAction(
                number=0,
                kind="grow_partitions",
                targets=("events",),
                started_at=10 * NS,
                ended_at=11 * NS,
                hidden_until_at=until_at,
            )
        ]
    )

    assert hidden.by("rebalance", 15 * NS) is not None
    assert hidden.by("rebalance", 15 * NS, pods=["consumer-1"]) is None
    assert hidden.by("rebalance", until_at + 1) is None
    assert hidden.by("members", 15 * NS, count=1) is None
    assert hidden.by("backlog", 15 * NS) is None
