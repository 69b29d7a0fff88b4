"""Reactions that came, and did not, in recorded runs that were tampered with."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.fakes.tampered_run import (
    SECOND,
    Row,
    TamperedRun,
    drop_lag,
    new_pods,
    set_lag,
    slo,
    without_pods,
    without_scaling,
)

from lagbench.core.measures.measures import NAMED
from lagbench.report.series import read_series

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


def test_a_clock_that_stepped_invalidates_the_run(run: TamperedRun) -> None:
    """Instants before and after it do not compare."""
    record = {
        "kind": "clock_stepped",
        "at": run.at(20),
        "source": "consumer-x",
        "step_seconds": -4.0,
    }
    run.add_records(record)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert re.search(r"consumer-x .*-4\.000 s .*\+20\.0 s", verdict.invalid[0])


def test_messages_that_were_done_before_they_were_due_prove_a_clock_wrong(
    run: TamperedRun,
) -> None:
    """An older folder has no record of the step, but a negative time lag."""
    run.edit_rows(
        "latency",
        lambda row: {**row, "p50_seconds": -3.9} if run.seconds(row["at"]) > 30 else row,
    )

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "before they were due" in verdict.invalid[0]


def test_a_stream_that_ended_before_its_last_report_proves_a_clock_wrong(run: TamperedRun) -> None:
    """Reports follow the stream's own pace, its end the wall clock."""
    run.edit_records(lambda r: {**r, "at": r["at"] - 4 * SECOND}, "stream_finished")

    assert "stepped" in run.judge().invalid[0]


def on_cluster(run: TamperedRun, pods: set[str], behind_seconds: float) -> None:
    """Let the run be a cluster's, with ``pods`` on a node whose clock is behind."""
    run.edit_json("manifest.json", lambda made: {**made, "fidelity": "kubernetes"})
    shift = round(behind_seconds * SECOND)
    run.edit_records(lambda r: {**r, "at": r["at"] - shift} if r["source"] in pods else r)


def bound_clock(run: TamperedRun, clock: str, pods: set[str], ahead_seconds: float) -> None:
    """Add what the recorder found of a clock: its offset to 1 ms."""
    recorder = run.records("replica_sample")[0]["source"]
    middle = round(ahead_seconds * SECOND)
    record = {
        "kind": "clock_offset",
        "at": run.at(5),
        "source": recorder,
        "clock": clock,
        "pods": sorted(pods),
        "low_ns": middle - 1_000_000,
        "high_ns": middle + 1_000_000,
        "answers": 30,
        "since_at": run.at(-5),
    }
    run.add_records(record)


def test_clocks_that_nobody_asked_leave_the_reaction_open(run: TamperedRun) -> None:
    """The new pods' node is 10 s behind: what it stamps looks early, and nothing bounds it."""
    on_cluster(run, new_pods(run), behind_seconds=10)
    run.set_slos(reaction_seconds=3.5, drain_seconds=60, rebalance_dip_percent=20)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert slo(verdict, "reaction_seconds").status == "undetermined"
    assert slo(verdict, "drain_seconds").status == "undetermined"
    assert slo(verdict, "rebalance_dip_percent").status == "undetermined"


def test_a_known_offset_is_taken_off_every_record(run: TamperedRun) -> None:
    """10 s behind, known to 1 ms: the same reaction, and the rebalance is the scale step's."""
    pods = new_pods(run)
    others = {record["source"] for record in run.records()} - pods
    on_cluster(run, pods, behind_seconds=10)
    bound_clock(run, "node-b", pods, ahead_seconds=-10)
    bound_clock(run, "node-a", others, ahead_seconds=0)
    bound_clock(run, "API server", set(), ahead_seconds=0)
    run.set_slos(reaction_seconds=8)

    measures, verdict = run.measure(), run.judge()

    assert [episode.trigger for episode in measures.rebalances.episodes][:2] == [
        "start",
        "scale_up",
    ]
    assert slo(verdict, "reaction_seconds").status == "pass"
    assert slo(verdict, "reaction_seconds").value == pytest.approx(6.065, abs=0.01)


def test_known_offsets_of_producer_and_pods_leave_the_same_figures(run: TamperedRun) -> None:
    """Producer 3 s ahead, pods 0.5 s: the messages are the timeline's, which Spark has shifted."""
    expected = run.measure()
    (producer,) = {record["source"] for record in run.records("stream_started")}
    pods = {record["source"] for record in run.records("consumer_progress")}
    others = {record["source"] for record in run.records()} - pods - {producer}
    drawn = read_series(run.folder, expected)
    on_cluster(run, pods, behind_seconds=-0.5)
    on_cluster(run, {producer}, behind_seconds=-3)

    def start(row: Row) -> Row:
        return {**row, "stream_started_at": row["stream_started_at"] + 3 * SECOND}

    run.edit_records(start, "stream_started")
    for name in ("manifest.json", "fence.json"):
        run.edit_json(name, start)
    bound_clock(run, "node-p", {producer}, ahead_seconds=3)
    bound_clock(run, "node-b", pods, ahead_seconds=0.5)
    bound_clock(run, "node-a", others, ahead_seconds=0)
    bound_clock(run, "API server", set(), ahead_seconds=0)

    found = run.measure()

    assert found.load.stream_started_at == expected.load.stream_started_at
    assert found.rebalances.episodes == expected.rebalances.episodes
    shown = read_series(run.folder, found)
    assert {row.pod: row.held.seconds.tolist() for row in shown.pods} == {
        row.pod: row.held.seconds.tolist() for row in drawn.pods
    }
    shown_cpu, drawn_cpu = (series.lines["cpu"]["mean"].values for series in (shown, drawn))
    assert np.array_equal(shown_cpu, drawn_cpu, equal_nan=True)
