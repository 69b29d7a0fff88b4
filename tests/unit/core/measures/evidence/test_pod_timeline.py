"""The pods' timelines, between whole seconds and what the watch showed."""

from __future__ import annotations

import re

import pytest
from tests.fakes.telemetry import SECOND, ns, of, pod_seen

from lagbench.core.clocks import API_SERVER, ONE_CLOCK, Clock, ClockSet, OffsetBound
from lagbench.core.measures.evidence.pod_timeline import (
    PodTimeline,
    lost_rebalances,
    pod_timelines,
    unwatched_text,
)
from lagbench.core.telemetry.records import TelemetryRecord, decode_record
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
)
from lagbench.core.telemetry.records_of_recorder import PodSeen, PodsListed, ReadGap


def seen(
    at: float,
    ready: float | None = None,
    gone: float | None = None,
    *,
    precision: int = SECOND,
    phase: str = "",
    finished: float | None = None,
    deleted: float | None = None,
) -> PodSeen:
    """One report on pod a, created at 5 s; instants in seconds."""
    ended = {"finished_at": finished, "deleted_at": deleted}
    stamps = {name: None if second is None else ns(second) for name, second in ended.items()}
    return pod_seen("a", 5, ready, gone, at=at, precision_ns=precision, phase=phase, **stamps)


def listed(at: float, *pods: str) -> PodsListed:
    """Return what a recorder found when it began."""
    return of(PodsListed, at, pods=list(pods))


BOUND = OffsetBound(ns(2.9), ns(3))
AHEAD = ClockSet(False, {API_SERVER: Clock(API_SERVER, BOUND, is_steady=True, answers=9)})


def timeline(*records: TelemetryRecord, clocks: ClockSet = ONE_CLOCK) -> PodTimeline:
    """Return the timeline of pod a."""
    return pod_timelines(records, clocks)["a"]


@pytest.mark.parametrize(
    ("reports", "clocks", "created", "precision"),
    [
        ([seen(5.2)], ONE_CLOCK, 5.2, 0.2),  # shown at once: the tighter stamp
        ([seen(45, 7)], ONE_CLOCK, 5, 1.0),  # by the first list: the second of the stamp
        ([seen(5.2, 7, precision=1)], ONE_CLOCK, 5, 1e-9),  # localkube stamps exactly
        # The API server is 2.9 to 3 s ahead: its second from 5 s on is ours from 2 to 3.1 s.
        ([seen(2.4)], AHEAD, 2.4, 0.4),
        ([seen(45)], AHEAD, 2, 1.1),
        ([seen(5.2)], ClockSet(is_one_clock=False), 5.2, None),  # how far it is off is not known
        ([seen(4)], ONE_CLOCK, 4, None),  # shown before it was stamped: one clock moved
    ],
)
def test_a_creation_is_as_exact_as_stamp_and_watch_allow(
    reports: list[PodSeen], clocks: ClockSet, created: float, precision: float | None
) -> None:
    """Stamped at 5 s; None: nothing bounds it."""
    found = timeline(*reports, clocks=clocks)

    assert found.created_at == ns(created)
    assert found.created_precision_seconds == (precision and pytest.approx(precision))


def test_a_pod_that_ends_was_ready_once() -> None:
    """A cluster takes the condition back when a pod ends; when it became Ready stays known."""
    found = timeline(seen(5.2, None), seen(7.4, 7), seen(60, None), seen(61, None, 61))

    assert (found.ready_at, found.ready_precision_seconds) == (ns(7.4), pytest.approx(0.4))


RUNNING = seen(7.4, 7, phase="Running")
EVICTED = seen(60.3, 7, phase="Failed", finished=60)
KILLED = seen(60, 7, phase="Failed", precision=1)
AGAIN = seen(60.2, 7, phase="Running", precision=1)
DELETED = seen(60.2, phase="Succeeded", finished=60, deleted=58)
REMOVED = seen(61, None, 61, phase="Succeeded", finished=60, deleted=58)
OLD = (
    '{"kind":"pod_seen","at":61000000000,"source":"r","pod":"a","created_at":5000000000,'
    '"started_at":null,"ready_at":null,"deleted_at":null,"gone_at":61000000000,'
    '"exit_code":null,"exit_reason":"","precision_ns":1000000000}'
)
"""Of a run that is older than the phases."""


@pytest.mark.parametrize(
    ("records", "gone"),
    [
        ([seen(30, 7, 29), seen(10, 7)], 29),  # the latest report counts, in any order
        ([RUNNING, EVICTED], 60.3),  # it costs nothing more, whatever becomes of its object
        ([RUNNING, EVICTED, seen(500, 7, 500, phase="Failed")], 60.3),
        ([seen(90, 7, phase="Failed", finished=60)], 60),  # shown late: the stamp
        ([seen(6, phase="Failed"), seen(9, phase="Failed")], 6),  # refused by its node
        # Killed and started again: an older run shows Failed in between.
        ([KILLED, AGAIN, seen(301, 7, 301, phase="Running")], 301),
        ([KILLED, AGAIN, seen(90, 7, phase="Failed")], 90),
        ([KILLED, AGAIN], None),
        ([RUNNING, DELETED], None),  # a scale-down lasts until the object is removed
        ([RUNNING, DELETED, REMOVED], 61),
        ([seen(300, None, 300, phase="Failed", finished=60, deleted=299)], 60),
        # It vanished while no recorder ran: the next one's first list is without it.
        ([listed(1), seen(7.4, 7), listed(90, "b"), listed(120)], 90),
        ([listed(1), seen(7.4, 7), listed(90, "a", "b"), seen(90, 7)], None),
        ([decode_record(OLD)], 61),
    ],
)
def test_a_pods_time_ends_once(records: list[TelemetryRecord], gone: float | None) -> None:
    """In seconds; None: it has not ended."""
    found = timeline(*records)

    assert found.gone_at == (None if gone is None else ns(gone))
    if gone is not None and found.ready_at == ns(7.4):
        assert found.seconds_between(0, 600 * SECOND) == pytest.approx(gone - 5)


def assigned(at: int, number: int, owned: list[int]) -> PartitionsAssigned:
    """Return an assignment of an eager rebalance: it names everything that the pod owns."""
    moved = {"partitions": owned, "owned": owned, "rebalance": number}
    return of(PartitionsAssigned, at, "pod", **moved)


def revoked(at: int, number: int, partitions: list[int]) -> PartitionsRevoked:
    """Return the revocation of everything, with which an eager rebalance begins."""
    return of(PartitionsRevoked, at, "pod", partitions=partitions, rebalance=number)


EAGER = [
    assigned(1, 1, [0, 1]),
    revoked(2, 2, [0, 1]),
    assigned(3, 2, [0]),
    revoked(4, 3, [0]),
    assigned(5, 3, [0, 1]),
    revoked(6, 4, [0, 1]),
]


def test_an_eager_rebalance_is_a_revocation_and_an_assignment_of_one_number() -> None:
    """Under range and roundrobin nothing is missing in a whole record."""
    assert lost_rebalances(EAGER) == ""


def test_each_record_that_an_eager_rebalance_lacks_is_seen() -> None:
    """Without one revocation, or without one rebalance, who owned what is not known."""
    assert "pod" in lost_rebalances([r for r in EAGER if r.at != ns(2)])
    assert "pod" in lost_rebalances([r for r in EAGER if r.at not in (ns(2), ns(3))])
    assert "pod" in lost_rebalances([r for r in EAGER if r.at not in (ns(4), ns(5))])


def test_a_container_that_starts_again_counts_anew() -> None:
    """The first assignment of the next container has number 1 again."""
    again = [assigned(7, 1, [1]), revoked(8, 2, [1]), assigned(9, 2, [0, 1])]

    assert lost_rebalances([*EAGER, *again]) == ""
    assert lost_rebalances([*EAGER[:5], *again]) == ""


def unread(*seconds: float) -> list[ReadGap]:
    """Return failures to read the pods."""
    return [of(ReadGap, second, what="pods") for second in seconds]


def told(*records: TelemetryRecord, members_are_pods: bool = True) -> str:
    """Return what is said of the first minute."""
    return unwatched_text(records, ["shop-a"], 0, ns(60), members_are_pods=members_are_pods)


JOINED = of(GroupJoined, 1, "rdkafka/1a2b")


def test_a_member_without_a_pod_is_named() -> None:
    """It reported itself by the name of its pod, which no record of the watch has."""
    assert "rdkafka/1a2b" in told(pod_seen("shop-a"), JOINED)


def test_a_member_with_a_name_of_its_own_hides_no_pod() -> None:
    """An observed group names its members by client ids; all its pods were watched."""
    assert told(pod_seen("shop-a"), JOINED, members_are_pods=False) == ""


@pytest.mark.parametrize(
    ("seconds", "numbers"),
    [
        ((10, 11, 12, 13, 14), ["4.0"]),
        ((10, 11), []),
        ((10, 30, 50), []),
        ((70, 71, 72, 73, 74, 75), []),
    ],
)
def test_a_watch_that_was_blind_for_long_may_have_missed_a_pod(
    seconds: tuple[float, ...], numbers: list[str]
) -> None:
    """After a short break the next list has each pod that lived longer than the break."""
    assert re.findall(r"[\d.]+", told(pod_seen("shop-a"), *unread(*seconds))) == numbers


def test_pods_that_nobody_watched_are_not_known() -> None:
    """There is not one record of a pod."""
    assert "not watched" in told()
