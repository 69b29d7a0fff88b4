"""The pods' timelines, between whole seconds and what the watch showed."""

from __future__ import annotations

import re

import pytest

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

SECOND = 1_000_000_000


def seen(
    at: float,
    ready: float | None,
    gone: float | None = None,
    *,
    precision: int = SECOND,
    phase: str = "",
    finished: float | None = None,
    deleted: float | None = None,
) -> PodSeen:
    """One report on pod a, created at 5 s; instants in seconds."""
    instants = [
        None if second is None else round(second * SECOND)
        for second in (ready, gone, deleted, finished)
    ]
    return PodSeen(
        at=round(at * SECOND),
        source="recorder",
        pod="a",
        created_at=5 * SECOND,
        started_at=None,
        ready_at=instants[0],
        deleted_at=instants[2],
        gone_at=instants[1],
        exit_code=None,
        exit_reason="",
        precision_ns=precision,
        phase=phase,
        finished_at=instants[3],
    )


def listed(at: float, *pods: str) -> PodsListed:
    """Return what a recorder found when it began."""
    return PodsListed(at=round(at * SECOND), source="recorder", pods=list(pods))


def timeline(*records: TelemetryRecord, clocks: ClockSet = ONE_CLOCK) -> PodTimeline:
    """Return the timeline of pod a."""
    return pod_timelines(records, clocks)["a"]


def test_the_last_report_of_a_pod_counts() -> None:
    """Reports may arrive in any order; the latest says when it was gone."""
    assert timeline(seen(30, 7, 29), seen(10, 7)).gone_at == 29 * SECOND


def test_a_watch_that_shows_a_change_at_once_is_the_tighter_stamp() -> None:
    """Created in the second from 5 s on and shown at 5.2 s: known to 0.2 s."""
    found = timeline(seen(5.2, None), seen(7.9, 7))

    assert (found.created_at, found.ready_at) == (5.2 * SECOND, 7.9 * SECOND)
    assert found.created_precision_seconds == pytest.approx(0.2)
    assert found.ready_precision_seconds == pytest.approx(0.9)


def test_what_was_there_before_the_watch_keeps_its_whole_second() -> None:
    """Shown 40 s later, by the first list: the second of the stamp is all that is known."""
    found = timeline(seen(45, 7))

    assert (found.created_at, found.created_precision_seconds) == (5 * SECOND, 1.0)


def test_a_pod_that_ends_was_ready_once() -> None:
    """A cluster takes the condition back when a pod ends; when it became Ready stays known."""
    found = timeline(seen(5.2, None), seen(7.4, 7), seen(60, None), seen(61, None, 61))

    assert found.ready_at == round(7.4 * SECOND)


def test_localkubes_stamps_stay_as_they_are() -> None:
    """They are exact; the watch adds nothing."""
    found = timeline(seen(5.2, 7, precision=1))

    assert (found.created_at, found.ready_at, found.note) == (5 * SECOND, 7 * SECOND, "")
    assert found.created_precision_seconds == 1e-9


def test_a_skewed_clock_moves_and_widens_the_whole_second() -> None:
    """The API server is 2.9 to 3 s ahead: its second from 5 s on is ours from 2 to 3.1 s."""
    bound = OffsetBound(round(2.9 * SECOND), 3 * SECOND)
    clocks = ClockSet(False, {API_SERVER: Clock(API_SERVER, bound, is_steady=True, answers=9)})

    shown = timeline(seen(2.4, None), clocks=clocks)
    listed = timeline(seen(45, None), clocks=clocks)

    assert shown.created_at == round(2.4 * SECOND)
    assert shown.created_precision_seconds == pytest.approx(0.4)
    assert listed.created_at == 2 * SECOND
    assert listed.created_precision_seconds == pytest.approx(1.1)


def test_without_a_bound_of_its_clock_a_stamp_has_no_precision() -> None:
    """How far a clock is off that nobody asked is not known."""
    found = timeline(seen(5.2, None), clocks=ClockSet(is_one_clock=False))

    assert (found.created_at, found.created_precision_seconds) == (5.2 * SECOND, None)


def test_a_pod_that_was_shown_before_its_stamp_has_no_precision() -> None:
    """Stamped at 5 s and shown at 4 s: one of the clocks moved."""
    found = timeline(seen(4, None))

    assert (found.created_at, found.created_precision_seconds) == (4 * SECOND, None)


def test_an_evicted_pod_ended_though_its_object_stays() -> None:
    """Failed at 60 s and shown at once: it costs nothing more, whatever becomes of its object."""
    evicted = seen(60.3, 7, phase="Failed", finished=60)

    found = timeline(seen(7.4, 7, phase="Running"), evicted)
    removed = timeline(seen(7.4, 7, phase="Running"), evicted, seen(500, 7, 500, phase="Failed"))

    assert found.gone_at == removed.gone_at == round(60.3 * SECOND)
    assert found.seconds_between(0, 600 * SECOND) == pytest.approx(55.3)


def test_the_stamp_of_an_end_that_was_shown_late_counts() -> None:
    """Evicted at 60 s while the watch was broken, listed at 90 s: the whole second is known."""
    assert timeline(seen(90, 7, phase="Failed", finished=60)).gone_at == 60 * SECOND


def test_a_pod_that_its_node_refused_ends_when_that_was_shown() -> None:
    """It never had a container, so nothing but the phase tells of its end."""
    assert (
        timeline(seen(6, None, phase="Failed"), seen(9, None, phase="Failed")).gone_at == 6 * SECOND
    )


def test_a_pod_that_is_running_again_had_not_ended() -> None:
    """Killed at 60 s and started again, gone at 301 s: an older run shows Failed in between."""
    killed = seen(60, 7, phase="Failed", precision=1)
    again = seen(60.2, 7, phase="Running", precision=1)

    assert timeline(killed, again, seen(301, 7, 301, phase="Running")).gone_at == 301 * SECOND
    assert timeline(killed, again, seen(90, 7, phase="Failed")).gone_at == 90 * SECOND
    assert timeline(killed, again).gone_at is None


def test_a_pod_that_was_deleted_lasts_until_its_object_is_removed() -> None:
    """A scale-down: asked at 58 s, the container ended at 60 s, the object went at 61 s."""
    running = seen(7.4, 7, phase="Running")
    ended = seen(60.2, None, phase="Succeeded", finished=60, deleted=58)
    gone = seen(61, None, 61, phase="Succeeded", finished=60, deleted=58)

    assert timeline(running, ended).gone_at is None
    assert timeline(running, ended, gone).gone_at == 61 * SECOND


def test_a_failed_pod_that_is_deleted_later_ended_before() -> None:
    """First told of with its deletion: the stamp of its end lies before that."""
    late = seen(300, None, 300, phase="Failed", finished=60, deleted=299)

    assert timeline(late).gone_at == 60 * SECOND


def test_a_pod_that_vanished_while_no_recorder_ran_is_gone_at_the_next_ones_list() -> None:
    """The first recorder told of it, the second one's first list is without it."""
    assert timeline(listed(1), seen(7.4, 7), listed(90, "b"), listed(120)).gone_at == 90 * SECOND
    assert timeline(listed(1), seen(7.4, 7), listed(90, "a", "b"), seen(90, 7)).gone_at is None


def test_an_older_run_says_nothing_of_phases() -> None:
    """Its records lack the fields, and a pod of it ends with its object."""
    old = (
        '{"kind":"pod_seen","at":61000000000,"source":"r","pod":"a","created_at":5000000000,'
        '"started_at":null,"ready_at":null,"deleted_at":null,"gone_at":61000000000,'
        '"exit_code":null,"exit_reason":"","precision_ns":1000000000}'
    )

    found = decode_record(old)

    assert isinstance(found, PodSeen)
    assert (found.phase, found.finished_at) == ("", None)
    assert timeline(found).gone_at == 61 * SECOND


def assigned(at: int, number: int, owned: list[int]) -> PartitionsAssigned:
    """Return an assignment of an eager rebalance: it names everything that the pod owns."""
    return PartitionsAssigned(
        at=at,
        source="pod",
        member_id="pod-1",
        partitions=owned,
        owned=owned,
        is_incremental=False,
        rebalance=number,
    )


def revoked(at: int, number: int, partitions: list[int]) -> PartitionsRevoked:
    """Return the revocation of everything, with which an eager rebalance begins."""
    return PartitionsRevoked(
        at=at,
        source="pod",
        member_id="pod-1",
        partitions=partitions,
        owned=[],
        is_lost=False,
        in_flight=0,
        finish_seconds=0.1,
        rebalance=number,
    )


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
    assert "pod" in lost_rebalances([r for r in EAGER if r.at != 2])
    assert "pod" in lost_rebalances([r for r in EAGER if r.at not in (2, 3)])
    assert "pod" in lost_rebalances([r for r in EAGER if r.at not in (4, 5)])


def test_a_container_that_starts_again_counts_anew() -> None:
    """The first assignment of the next container has number 1 again."""
    again = [assigned(7, 1, [1]), revoked(8, 2, [1]), assigned(9, 2, [0, 1])]

    assert lost_rebalances([*EAGER, *again]) == ""
    assert lost_rebalances([*EAGER[:5], *again]) == ""


NS = 1_000_000_000


def pod(name: str) -> PodSeen:
    """Return the record of a pod."""
    return PodSeen(
        at=0,
        source="recorder",
        pod=name,
        created_at=0,
        started_at=None,
        ready_at=None,
        deleted_at=None,
        gone_at=None,
        exit_code=None,
        exit_reason="",
        precision_ns=1,
    )


def unread(*seconds: float) -> list[ReadGap]:
    """Return failures to read the pods."""
    return [
        ReadGap(at=round(second * NS), source="recorder", what="pods", reason="no answer")
        for second in seconds
    ]


def told(*records: TelemetryRecord, members_are_pods: bool = True) -> str:
    """Return what is said of the first minute."""
    return unwatched_text(records, ["shop-a"], 0, 60 * NS, members_are_pods=members_are_pods)


JOINED = GroupJoined(at=NS, source="rdkafka/1a2b", member_id="m")


def test_a_member_without_a_pod_is_named() -> None:
    """It reported itself by the name of its pod, which no record of the watch has."""
    assert "rdkafka/1a2b" in told(pod("shop-a"), JOINED)


def test_a_member_with_a_name_of_its_own_hides_no_pod() -> None:
    """An observed group names its members by client ids; all its pods were watched."""
    assert told(pod("shop-a"), JOINED, members_are_pods=False) == ""


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
    assert re.findall(r"[\d.]+", told(pod("shop-a"), *unread(*seconds))) == numbers


def test_pods_that_nobody_watched_are_not_known() -> None:
    """There is not one record of a pod."""
    assert "not watched" in told()
