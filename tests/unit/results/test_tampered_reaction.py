"""Reactions that came, and did not, in recorded runs that were tampered with."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import (
    Row,
    TamperedRun,
    drop_lag,
    new_pods,
    set_lag,
    slo,
    without_pods,
    without_scaling,
)

from lagbench.core.measures.registry import NAMED

REACTION_SECONDS = pytest.approx(6.065, abs=0.001)


def test_a_lost_watch_of_the_pods_fails_nobody(run: TamperedRun) -> None:
    """Step, joins and work are on record; when the pods were Ready nobody saw."""
    run.drop_records("pod_seen", "pods_listed")

    assert slo(run.judge(), "reaction_seconds").status == "undetermined"


def test_a_watch_that_lost_the_new_pods_fails_nobody(run: TamperedRun) -> None:
    """It tells of the first pod alone, and three others joined."""
    pods = new_pods(run)
    run.edit_records(lambda r: None if r["pod"] in pods else r, "pod_seen")

    assert slo(run.judge(), "reaction_seconds").status == "undetermined"


def test_pods_that_never_came_fail(run: TamperedRun) -> None:
    """Replicas rose, the watch was there, and no pod was created."""
    without_pods(run, new_pods(run))

    assert slo(run.judge(), "reaction_seconds").status == "fail"


def test_a_pod_that_never_became_ready_did_not_come(run: TamperedRun) -> None:
    """It was created, and neither Ready nor a member until the end."""
    pods = new_pods(run)

    def edit(record: Row) -> Row | None:
        if record["source"] in pods:
            return None
        if record.get("pod") in pods:
            return {**record, "ready_at": None, "started_at": None}
        return record

    run.edit_records(edit)

    assert slo(run.judge(), "reaction_seconds").status == "fail"


def test_replicas_at_the_ceiling_react_in_no_time(run: TamperedRun) -> None:
    """4 of 4 were Ready at the step: none could be added."""
    pods = new_pods(run)
    without_scaling(run)
    run.edit_records(lambda r: {**r, "spec": 4, "current": 4, "ready": 4}, "replica_sample")

    found = slo(run.judge_beyond_doubt(), "reaction_seconds")

    assert len(pods) == 3
    assert (found.status, found.value) == ("pass", 0)


def test_replicas_that_were_wanted_but_not_ready_are_not_there(run: TamperedRun) -> None:
    """4 wanted and 1 Ready at the step, and none after it: that reacts in no time at all."""
    without_scaling(run)
    run.edit_records(lambda r: {**r, "spec": 4, "current": 4, "ready": 1}, "replica_sample")

    assert slo(run.judge(), "reaction_seconds").status != "pass"


def test_pods_that_were_wanted_before_the_step_react_when_they_come(run: TamperedRun) -> None:
    """4 were wanted before the spike, 3 of them are Ready 6.07 s after it."""
    run.drop_records("scaled", "replicas_changed")
    run.edit_records(lambda r: {**r, "spec": 4}, "replica_sample")

    found = slo(run.judge(), "reaction_seconds")

    assert (found.status, found.value) == ("pass", REACTION_SECONDS)


def test_lag_that_never_crossed_asked_for_no_pod(run: TamperedRun) -> None:
    """Seen throughout, below the threshold: judged, 0 s."""
    without_scaling(run)
    set_lag(run, lambda _second, _row: 10)
    run.drop_records("offsets_committed")

    found = slo(run.judge_beyond_doubt(), "reaction_seconds")

    assert (found.status, found.value) == ("pass", 0)


def test_lag_that_was_not_seen_may_have_asked_for_a_pod(run: TamperedRun) -> None:
    """10 s without a sample: no pod came, and whether one was due nobody knows."""
    without_scaling(run)
    set_lag(run, lambda _second, _row: 10)
    drop_lag(run, 10, 16)

    assert slo(run.judge(), "reaction_seconds").status == "undetermined"


def test_a_late_first_sample_of_lag_does_not_move_the_reaction(run: TamperedRun) -> None:
    """The crossing is a link of the chain; the value is of the stamps of step, Ready, assigned."""
    drop_lag(run, -1e9, 14)
    run.set_slos(reaction_seconds=7)

    found = slo(run.judge(), "reaction_seconds")

    assert (found.status, found.value) == ("pass", REACTION_SECONDS)


def test_the_chain_is_of_the_burst_that_asked_for_pods(run: TamperedRun) -> None:
    """A marked spike at 2 s crossed nothing; the one at 8 s was answered in 6.07 s."""
    rates = ((0, 150, False), (2, 150, True), (4, 150, False), (8, 1500, True), (18, 150, False))
    points = [{"second": s, "rate_per_second": r, "is_spike": m} for s, r, m in (*rates,)]
    end = {"second": 22, "rate_per_second": 0, "is_spike": False}
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": [*points, end]})

    verdict = run.judge()

    found = slo(verdict, "reaction_seconds")
    assert (verdict.status, found.value) == ("pass", REACTION_SECONDS)
    assert found.reason.startswith("load step 2 of 2")


def test_a_later_burst_that_no_pod_answered_fails(run: TamperedRun) -> None:
    """The first burst of two was answered; after the second one lag stayed above."""
    rates = (
        (0, 150, False),
        (8, 1500, True),
        (12, 1500, False),
        (14.3, 1500, True),
        (18, 150, False),
    )
    points = [{"second": s, "rate_per_second": r, "is_spike": m} for s, r, m in (*rates,)]
    end = {"second": 22, "rate_per_second": 0, "is_spike": False}
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": [*points, end]})
    run.edit_yaml("policy.yaml", lambda made: with_ceiling(made, 12))
    run.set_scenario(partitions=12)
    run.set_accounting(partition_counts=None)
    run.edit_records(lambda record: {**record, "partitions": 12}, "stream_started")
    rows = run.rows("lag")
    added = [
        {"at": at, "partition": partition, "end_offset": 0, "committed": None, "lag": 0}
        for at in sorted({row["at"] for row in rows})
        for partition in range(4, 12)
    ]
    run.write_rows("lag", [*rows, *added])

    run.drop_records("offsets_committed")
    set_lag(run, lambda second, row: 2000 if 14 < second < 60 and row["lag"] else row["lag"])

    found = slo(run.judge_beyond_doubt(), "reaction_seconds")

    assert found.status == "fail"
    assert found.reason.startswith("load step 2 of 2")


def with_ceiling(policy: Row, ceiling: int) -> Row:
    """Return the policy with another maxReplicaCount."""
    policy["spec"]["maxReplicaCount"] = ceiling
    return policy


def test_replicas_that_nobody_saw_before_the_step_are_not_known(run: TamperedRun) -> None:
    """No sample, no autoscaler, no watch: how much lag asks for more is not known."""
    run.drop_records("replica_sample", "hpa_sync", "keda_poll", "replicas_watched")

    assert run.judge().status == "undetermined"


def test_pods_that_nobody_watched_leave_the_pod_time_open(run: TamperedRun) -> None:
    """Members of the group without a record of their pods cost time that is in no sum."""
    pods = new_pods(run)
    run.set_slos(pod_minutes=0.9)
    whole = slo(run.judge(), "pod_minutes")
    run.edit_records(lambda r: None if r["pod"] in pods else r, "pod_seen")

    found = slo(run.judge(), "pod_minutes")

    run.set_slos(pod_minutes=0.1)
    sure = slo(run.judge(), "pod_minutes")

    assert (whole.status, found.status) == ("fail", "undetermined")
    assert sure.status == "fail"
    assert sure.reason.endswith(found.reason)
    assert all(pod in found.reason for pod in pods)
    measures = run.measure()
    assert NAMED["pod_minutes"].read(measures) is None
    assert measures.scaling.pod_minutes_after is None
    assert measures.paid_for_itself.net_records_per_pod_minute is None
