"""The SLOs' standing: what the run has shown of each so far."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.core.live.test_course import LIMITS, S, cell, lag, replicas, stream_started

from lagbench.core.hpa import ControllerFlags
from lagbench.core.live import Course, SloStanding
from lagbench.core.policy import PolicyLimits
from lagbench.core.scenario import Slos
from lagbench.core.telemetry import PartitionsAssigned, PodSeen, Record, Scaled

SPIKE = (10.0, 30.0)


def standings(
    *records: Record, at: float, slos: Slos | None = None, spikes: tuple[tuple[float, float], ...]
) -> dict[str, SloStanding]:
    """Return the standings at a second of the stream, which starts at 1,000 s."""
    course = Course(cell(*spikes), slos or Slos(drain_seconds=20, pod_minutes=1), LIMITS)
    course.take(stream_started(0), 0)
    for record in records:
        course.take(record, record.at)
    return course.line(round(at * S)).standing


def above(second: float, total: int) -> Record:
    """Return a sample of that total lag."""
    return lag(round(second * S), (0, total, 0), (1, 0, 0))


def came(pod: str, *, created: float, ready: float, assigned: float) -> list[Record]:
    """Return what is seen of a pod that is created, gets Ready and has a partition."""
    seen = PodSeen(
        at=round(ready * S),
        source="recorder",
        pod=pod,
        created_at=round(created * S),
        started_at=None,
        ready_at=round(ready * S),
        deleted_at=None,
        gone_at=None,
        exit_code=None,
        exit_reason="",
        precision_ns=0,
    )
    owns = PartitionsAssigned(
        at=round(assigned * S),
        source=pod,
        member_id=pod,
        partitions=[1],
        owned=[1],
        is_incremental=False,
        rebalance=1,
    )
    return [seen, owns]


def scaled(second: float, before: int, after: int) -> list[Record]:
    """Return a step of the autoscaler and the sample after it."""
    step = Scaled(
        at=round(second * S),
        source="autoscaler",
        target="consumer",
        replicas_before=before,
        replicas_after=after,
        by="hpa",
        reason="",
    )
    return [step, replicas(round((second + 0.5) * S), after)]


def test_the_accounting_decides_the_messages() -> None:
    """No telemetry shows what was lost; its SLO waits for the end."""
    shown = standings(at=5, spikes=(SPIKE,))

    assert shown["lost"] == shown["standstill_seconds"] == (None, "at_end")


def test_a_limit_of_zero_is_a_limit() -> None:
    """The flips are followed although none is allowed."""
    assert standings(replicas(S, 1), at=5, spikes=(SPIKE,))["flips"] == (0, "holds")


def test_a_flip_breaks_the_limit() -> None:
    """Up, down and up again in the spike is a flip that is not allowed."""
    records = [replicas(S, 1), *scaled(12, 1, 2), *scaled(15, 2, 1), *scaled(20, 1, 3)]

    assert standings(*records, at=22, spikes=(SPIKE,))["flips"] == (2, "broken")


def test_the_return_after_the_spike_is_no_flip() -> None:
    """Up in the spike and down after it is what the policy is for."""
    records = [replicas(S, 1), *scaled(12, 1, 2), *scaled(40, 2, 1)]

    assert standings(*records, at=45, spikes=(SPIKE,))["flips"] == (0, "holds")


def test_without_need_there_is_no_reaction() -> None:
    """A spike whose lag the replicas may hold asks for no pod."""
    shown = standings(replicas(S, 1), above(12, 90), at=29, spikes=(SPIKE,))

    assert shown["reaction_seconds"] == (None, "open")


def test_a_reaction_runs_until_a_new_pod_works() -> None:
    """It counts from the spike's start; the limit decides what it says."""
    needed = [replicas(S, 1), above(12, 500)]
    pod = came("consumer-2", created=14, ready=16, assigned=18)

    waiting = standings(*needed, at=15, spikes=(SPIKE,))
    reacted = standings(*needed, *pod, at=25, spikes=(SPIKE,))
    late = standings(*needed, at=29, slos=Slos(reaction_seconds=10), spikes=(SPIKE,))

    assert waiting["reaction_seconds"] == (5.0, "open")
    assert reacted["reaction_seconds"] == (8.0, "holds")
    assert late["reaction_seconds"] == (19.0, "broken")


def test_a_pod_of_before_the_spike_is_no_reaction() -> None:
    """Only a pod that was created since counts."""
    records = [replicas(S, 1), above(12, 500), *came("old", created=1, ready=2, assigned=13)]

    assert standings(*records, at=15, spikes=(SPIKE,))["reaction_seconds"] == (5.0, "open")


def test_a_drain_runs_from_the_last_spike_s_end() -> None:
    """It ends with the first total at most the threshold, and breaks its limit by the clock."""
    open_, ended, broken = (
        standings(*records, at=at, spikes=(SPIKE,))["drain_seconds"]
        for records, at in (
            ([above(31, 500)], 35),
            ([above(31, 500), above(42, 100)], 60),
            ([above(31, 500)], 51),
        )
    )

    assert open_ == (5.0, "open")
    assert ended == (12.0, "holds")
    assert broken == (21.0, "broken")


def test_before_a_spike_ends_nothing_drains() -> None:
    """A low lag before the spike is no drain."""
    assert standings(above(5, 0), at=9, spikes=(SPIKE,))["drain_seconds"] == (None, "open")


def test_replicas_off_the_floor_before_the_spike_break_the_baseline() -> None:
    """After the spike's start the replicas may be anywhere."""
    before, after = (
        standings(replicas(round(at * S), 2), at=20, spikes=(SPIKE,)) for at in (5.0, 15.0)
    )

    assert before["baseline_at_floor"] == (None, "broken")
    assert after["baseline_at_floor"] == (None, "holds")


def test_pod_minutes_end_with_the_planned_window() -> None:
    """Two pods for the planned 60 s are two minutes, however long the tail is."""
    samples = [replicas(second * S, 2) for second in range(0, 100, 5)]

    assert standings(*samples, at=100, spikes=(SPIKE,))["pod_minutes"] == (2.0, "broken")


def test_only_a_changed_standing_is_told() -> None:
    """The second line repeats nothing that has not changed."""
    course = Course(cell(SPIKE), Slos(), LIMITS)
    course.take(stream_started(0), 0)
    course.take(replicas(S, 1), S)
    course.line(2 * S)

    assert course.line(3 * S).standing == {}


def test_a_reaction_that_no_pod_reports_is_left_to_the_end() -> None:
    """Workers of Spark and consumers of a user report no partitions: late is not broken there."""
    slos = Slos(reaction_seconds=5)
    shown = {}
    for reports_owners in (True, False):
        course = Course(cell(SPIKE), slos, LIMITS, reports_owners=reports_owners)
        course.take(stream_started(0), 0)
        late = above(25, 100_000)
        course.take(late, late.at)
        shown[reports_owners] = course.line(round(29 * S)).standing["reaction_seconds"]

    assert shown[True][1] == "broken"
    assert shown[False] == (None, "at_end")


@pytest.mark.parametrize(
    ("limits", "standing"),
    [
        (LIMITS, "broken"),
        (replace(LIMITS, flags=ControllerFlags(tolerance=0.5)), "open"),
        (replace(LIMITS, scales_at_records=None, group_target_records=120.0), "open"),
        (replace(LIMITS, scales_at_records=None, group_target_records=115.0), "broken"),
        (replace(LIMITS, has_formula=True), "open"),
    ],
)
def test_the_policy_says_which_lag_needs_pods(limits: PolicyLimits, standing: str) -> None:
    """130 messages ask for a second pod by 100 a pod, not by a wider tolerance or target."""
    course = Course(cell(SPIKE), Slos(reaction_seconds=5), limits)
    course.take(stream_started(0), 0)
    late = above(25, 130)
    course.take(late, late.at)

    assert course.line(round(29 * S)).standing["reaction_seconds"][1] == standing


def test_a_target_of_the_whole_group_holds_at_each_replica_count() -> None:
    """With ``metricType: Value`` four replicas do not multiply the target."""
    of_group = replace(LIMITS, scales_at_records=None, group_target_records=100.0)
    shown = {}
    for limits in (LIMITS, of_group):
        course = Course(cell(SPIKE), Slos(reaction_seconds=5), limits)
        course.take(stream_started(0), 0)
        for record in (replicas(round(20 * S), 4), above(25, 300)):
            course.take(record, record.at)
        shown[limits] = course.line(round(29 * S)).standing["reaction_seconds"][1]

    assert shown == {LIMITS: "open", of_group: "broken"}
