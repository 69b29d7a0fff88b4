"""Recorded run folders that were tampered with: what a verdict must not be fooled by.

The recorded run: 150/s, from 8 s to 28 s 1,500/s, until 32 s 150/s again; 1 pod (250/s), at +10.2 s
4 wanted; reaction 3.75 s; drained 13.6 s after the spike, at +41.6 s; 1 pod again at +55.5 s.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun, slo, tampered

REACTION_SECONDS = pytest.approx(3.754, abs=0.001)
TRACE = {
    "kind": "trace",
    "file": "trace.csv",
    "points": [
        {"second": 0, "rate_per_second": 150},
        {"second": 8, "rate_per_second": 1500},
        {"second": 28, "rate_per_second": 150},
        {"second": 32, "rate_per_second": 0},
    ],
}


@pytest.fixture
def run(tmp_path: Path) -> TamperedRun:
    """Return a fresh copy of the recorded run."""
    return tampered(tmp_path)


def new_pods(run: TamperedRun) -> set[str]:
    """Return the pods that the scale-up added."""
    seen = run.records("pod_seen")
    return {record["pod"] for record in seen if run.seconds(record["created_at"]) > 0}


def without_scaling(run: TamperedRun) -> None:
    """Leave the replicas at 1: no step, no new pod."""
    pods = new_pods(run)

    def edit(record: Row) -> Row | None:
        if record["source"] in pods or record.get("pod") in pods:
            return None
        if record["kind"] in ("scaled", "replicas_changed"):
            return None
        if record["kind"] == "replica_sample":
            return {**record, "spec": 1, "current": 1, "ready": 1}
        if record["kind"] == "hpa_sync":
            return {**record, "spec_replicas": 1, "desired": 1}
        if record["kind"] == "group_sample":
            return {**record, "members": 1}
        return record

    run.edit_records(edit)


def set_lag(run: TamperedRun, lag_at: Any) -> None:
    """Set the lag of each row to ``lag_at(seconds, row)``; None: the commit is not known."""

    def edit(row: Row) -> Row:
        lag = lag_at(run.seconds(row["at"]), row)
        committed = None if lag is None else row["end_offset"] - lag
        return {**row, "committed": committed, "lag": lag}

    run.edit_rows("lag", edit)


def as_trace(run: TamperedRun) -> None:
    """Tell the same load as a trace."""
    run.set_scenario(profile=TRACE)
    run.edit_records(lambda record: {**record, "step": "change"}, "load_step")


# a load is what the scenario says ------------------------------------------------------------


def test_a_folder_of_format_1_passes(run: TamperedRun) -> None:
    """The folder as it was recorded is judged pass, and a note says what it never recorded."""
    verdict = run.judge()

    assert verdict.status == "pass"
    assert slo(verdict, "reaction_seconds").value == REACTION_SECONDS
    assert any(note.startswith("this folder is of format 1") for note in verdict.notes)


def test_a_trace_is_judged_as_the_spike_that_it_is(run: TamperedRun) -> None:
    """One rise and one return are no flip, the baseline is before the spike, lag is judged."""
    as_trace(run)
    run.set_slos(drain_seconds=60)

    verdict = run.judge()

    assert verdict.status == "pass"
    judged = {result.name for result in verdict.slos if result.status == "pass"}
    assert judged >= {
        "reaction_seconds",
        "drain_seconds",
        "lag_falls_at_full_parallelism",
        "flips",
        "baseline_at_floor",
    }


def test_a_dead_autoscaler_fails_under_a_trace(run: TamperedRun) -> None:
    """The load asked for pods and none came."""
    as_trace(run)
    without_scaling(run)
    run.set_slos(reaction_seconds=5, drain_seconds=10)

    verdict = run.judge()

    assert verdict.status == "fail"
    assert slo(verdict, "reaction_seconds").status == "fail"
    assert slo(verdict, "drain_seconds").status == "fail"


def test_lost_load_steps_lose_no_judgement(run: TamperedRun) -> None:
    """The scenario says when the spike began and ended: a dead autoscaler stays one."""
    run.drop_records("load_step")
    without_scaling(run)
    run.set_slos(flips=None, drain_seconds=10)

    verdict = run.judge()

    assert slo(verdict, "reaction_seconds").status == "fail"
    assert slo(verdict, "drain_seconds").status == "fail"


def test_a_load_that_the_scenario_does_not_have_is_invalid(run: TamperedRun) -> None:
    """A scenario made steady afterwards is not what the producer sent."""
    run.set_scenario(profile={"kind": "steady", "rate_per_second": 150, "duration_seconds": 32})

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "the producer planned 31,800 messages" in verdict.invalid[0]


def test_a_stream_without_a_start_is_not_judged_by_its_spike(run: TamperedRun) -> None:
    """Neither the producer nor the manifest says when it began."""
    run.drop_records("stream_started")
    for name in ("manifest.json", "fence.json"):
        run.edit_json(name, lambda made: {**made, "stream_started_at": None})

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "the start of the stream is not known" in verdict.invalid[0]
    assert slo(verdict, "reaction_seconds").status == "undetermined"


def test_two_starts_of_one_stream_are_no_start(run: TamperedRun) -> None:
    """The producer's word moved by 3 s would make the reaction shorter than the limit."""
    run.edit_records(
        lambda r: {**r, "stream_started_at": r["stream_started_at"] + 3 * SECOND}, "stream_started"
    )
    run.drop_records("load_step")

    assert run.judge().status == "undetermined"


def test_without_the_producers_first_word_the_manifest_has_the_start(run: TamperedRun) -> None:
    """The same instant, so the same measures."""
    run.drop_records("stream_started")

    verdict = run.judge()

    assert verdict.status == "pass"
    assert slo(verdict, "reaction_seconds").value == REACTION_SECONDS


# the load that Kafka took --------------------------------------------------------------------


def refused(run: TamperedRun, count: int) -> None:
    """Let the broker have refused ``count`` messages."""
    acked = 31_800 - count
    run.edit_records(lambda r: {**r, "acked": acked, "failed": count}, "stream_finished")
    run.set_accounting(produced_acked=acked, produced_failed=count)


@pytest.mark.parametrize("count", [40, 25_000])
def test_refused_deliveries_are_another_load(run: TamperedRun, count: int) -> None:
    """However few: what Kafka took is not what was planned."""
    refused(run, count)
    run.set_accounting(in_log=31_800 - count, processed_distinct=31_800 - count)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert f"{count:,} were refused" in verdict.invalid[0]
    assert not [result for result in verdict.slos if result.status == "pass"]


def test_an_empty_log_never_passes(run: TamperedRun) -> None:
    """All was refused: nothing lagged, nothing was lost, and nothing was shown."""
    refused(run, 31_800)
    without_scaling(run)
    run.set_accounting(in_log=0, processed_distinct=0, processed_records=0)
    run.edit_rows("lag", lambda row: {**row, "end_offset": 0, "committed": None, "lag": 0})
    empty = dict.fromkeys(map(str, range(4)), 0)
    run.edit_json("fence.json", lambda made: {**made, "events": empty, "committed": empty})
    run.set_slos(drain_seconds=60)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert any("the log holds no message" in reason for reason in verdict.reasons)


def test_an_empty_log_never_passes_even_where_nothing_was_planned_to_be_lost(
    run: TamperedRun,
) -> None:
    """The fence alone shows it: all its end offsets are 0."""
    empty = dict.fromkeys(map(str, range(4)), 0)
    run.edit_json("fence.json", lambda made: {**made, "events": empty, "committed": empty})

    assert run.judge().status == "undetermined"


def hold_back(run: TamperedRun, waiting: int) -> None:
    """Let ``waiting`` messages wait in the producer's client from 12 s to 28 s."""

    def edit(record: Row) -> Row:
        is_inside = 12 <= run.seconds(record["at"]) <= 28
        return {**record, "acked": record["sent"] - waiting} if is_inside else record

    run.edit_records(edit, "producer_progress")


def test_a_backlog_in_the_producers_client_is_a_late_load(run: TamperedRun) -> None:
    """1,600 of 1,500/s wait: Kafka took the spike more than a second late, and lag is small."""
    hold_back(run, 1600)
    set_lag(run, lambda _second, _row: 10)
    run.set_slos(drain_seconds=10)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "messages waited in the producer's client" in verdict.invalid[0]
    assert slo(verdict, "drain_seconds").status == "undetermined"


def test_what_a_client_batches_is_no_backlog(run: TamperedRun) -> None:
    """1,400 of 1,500/s are on their way."""
    hold_back(run, 1400)

    assert run.judge().status == "pass"


def test_lag_is_not_drained_while_the_client_holds_messages_back(run: TamperedRun) -> None:
    """Lag is low from the spike's end on, because the rest had not come: drained after that."""

    def edit(record: Row) -> Row:
        is_inside = 27 <= run.seconds(record["at"]) <= 31.5
        return {**record, "acked": record["sent"] - 9000} if is_inside else record

    run.edit_records(edit, "producer_progress")
    set_lag(run, lambda second, row: 10 if second > 28 else row["lag"])

    assert run.measure().drain.drain_seconds >= 3.0


@pytest.mark.parametrize(("until_seconds", "status"), [(13, "pass"), (16, "undetermined")])
def test_a_silent_producer_leaves_the_load_unknown(
    run: TamperedRun, until_seconds: float, status: str
) -> None:
    """Two lost reports are noise; 5 s without any may hold a backlog."""
    run.drop_records("producer_progress", from_seconds=10.5, until_seconds=until_seconds)

    assert run.judge().status == status


def test_a_producer_without_any_report_leaves_the_load_unknown(run: TamperedRun) -> None:
    """Its last word says how much, not when."""
    run.drop_records("producer_progress")

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "the producer not heard" in verdict.invalid[0]


def test_an_invalid_run_says_why_once(run: TamperedRun) -> None:
    """At the top; each SLO has its own reason, with what was measured."""
    hold_back(run, 5000)

    verdict = run.judge()

    sentence = verdict.invalid[0]
    assert verdict.reasons[0] == sentence
    assert sum(sentence in reason for reason in verdict.reasons) == 1
    assert not any(sentence in result.reason for result in verdict.slos)
    assert slo(verdict, "reaction_seconds").value == REACTION_SECONDS


# lag -----------------------------------------------------------------------------------------


def drop_lag(run: TamperedRun, from_seconds: float, until_seconds: float) -> None:
    """Leave out the lag of a stretch."""

    def edit(row: Row) -> Row | None:
        return None if from_seconds <= run.seconds(row["at"]) < until_seconds else row

    run.edit_rows("lag", edit)


def test_a_recorder_that_died_after_the_spike_fails_nothing(run: TamperedRun) -> None:
    """Nobody looked whether lag came down within 10 s."""
    set_lag(run, lambda _second, row: row["lag"] or 0)
    drop_lag(run, 28.5, 1e9)
    run.drop_records("lag_sample", from_seconds=28.5)
    run.set_slos(drain_seconds=10)

    assert slo(run.judge(), "drain_seconds").status == "undetermined"


def test_lag_that_was_seen_above_beyond_the_limit_fails(run: TamperedRun) -> None:
    """The last sample, 12 s after the spike, is still above."""
    set_lag(run, lambda _second, row: row["lag"] or 0)
    drop_lag(run, 40.5, 1e9)
    run.set_slos(drain_seconds=10)

    assert slo(run.judge(), "drain_seconds").status == "fail"


def test_a_drain_in_a_gap_is_as_wide_as_the_gap(run: TamperedRun) -> None:
    """Unseen from the spike's end to 13 s after: it was drained in 0 to 13.6 s."""
    drop_lag(run, 28.5, 41)
    run.set_slos(drain_seconds=10)

    found = slo(run.judge(), "drain_seconds")

    assert found.status == "undetermined"
    assert found.low == pytest.approx(0, abs=1)
    assert found.value == pytest.approx(13.6, abs=0.1)


def test_samples_that_know_nothing_are_a_gap(run: TamperedRun) -> None:
    """There are rows, but no total: the drain's precision is the distance to the last known."""
    set_lag(run, lambda second, row: None if 30 < second < 41 else row["lag"])

    assert run.measure().drain.precision_seconds == pytest.approx(12, abs=1)


@pytest.mark.parametrize(("limit", "status"), [(13, "undetermined"), (12, "fail"), (14, "pass")])
def test_a_limit_inside_the_last_second_is_not_decided(
    run: TamperedRun, limit: float, status: str
) -> None:
    """Drained between 12.6 s and 13.6 s after the spike."""
    run.set_slos(drain_seconds=limit)

    assert slo(run.judge(), "drain_seconds").status == status


@pytest.mark.parametrize("added_seconds", [10.0, 45.0])
def test_a_partition_added_in_mid_run_moves_no_earlier_number(
    run: TamperedRun, added_seconds: float
) -> None:
    """Before its first row it held nothing."""
    before = run.measure()
    rows = run.rows("lag")
    instants = sorted({row["at"] for row in rows if run.seconds(row["at"]) >= added_seconds})
    added = [
        {"at": at, "partition": 4, "end_offset": 0, "committed": None, "lag": 0} for at in instants
    ]
    run.write_rows("lag", [*rows, *added])

    after = run.measure()

    assert after.reaction.assigned_seconds == before.reaction.assigned_seconds
    assert after.reaction.links[1] == before.reaction.links[1]
    assert after.lag.peak_records == before.lag.peak_records
    assert after.drain == before.drain


def test_a_partition_without_any_row_leaves_lag_unknown(run: TamperedRun) -> None:
    """It was there when the stream began, so the total without it is no total."""
    run.edit_rows("lag", lambda row: None if row["partition"] == 3 else row)
    run.set_slos(drain_seconds=60)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert slo(verdict, "drain_seconds").status == "undetermined"


# reaction ------------------------------------------------------------------------------------


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
    pods = new_pods(run)
    run.edit_records(
        lambda r: None if r["source"] in pods or r.get("pod") in pods else r,
    )

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

    found = slo(run.judge(), "reaction_seconds")

    assert len(pods) == 3
    assert (found.status, found.value) == ("pass", 0)


def test_replicas_that_were_wanted_but_not_ready_are_not_there(run: TamperedRun) -> None:
    """4 wanted and 1 Ready at the step, and none after it: that reacts in no time at all."""
    without_scaling(run)
    run.edit_records(lambda r: {**r, "spec": 4, "current": 4, "ready": 1}, "replica_sample")

    assert slo(run.judge(), "reaction_seconds").status != "pass"


def test_pods_that_were_wanted_before_the_step_react_when_they_come(run: TamperedRun) -> None:
    """4 were wanted before the spike, 3 of them are Ready 3.75 s after it."""
    run.drop_records("scaled", "replicas_changed")
    run.edit_records(lambda r: {**r, "spec": 4}, "replica_sample")

    found = slo(run.judge(), "reaction_seconds")

    assert (found.status, found.value) == ("pass", REACTION_SECONDS)


def test_lag_that_never_crossed_asked_for_no_pod(run: TamperedRun) -> None:
    """Seen throughout, below the threshold: judged, 0 s."""
    without_scaling(run)
    set_lag(run, lambda _second, _row: 10)

    found = slo(run.judge(), "reaction_seconds")

    assert (found.status, found.value) == ("pass", 0)


def test_lag_that_was_not_seen_may_have_asked_for_a_pod(run: TamperedRun) -> None:
    """10 s without a sample: no pod came, and whether one was due nobody knows."""
    without_scaling(run)
    set_lag(run, lambda _second, _row: 10)
    drop_lag(run, 12, 22)

    assert slo(run.judge(), "reaction_seconds").status == "undetermined"


def test_a_late_first_sample_of_lag_does_not_move_the_reaction(run: TamperedRun) -> None:
    """The crossing is a link of the chain; the value is of the stamps of step, Ready, assigned."""
    drop_lag(run, -1e9, 14)
    run.set_slos(reaction_seconds=4)

    found = slo(run.judge(), "reaction_seconds")

    assert (found.status, found.value) == ("pass", REACTION_SECONDS)


def test_the_chain_is_of_the_burst_that_asked_for_pods(run: TamperedRun) -> None:
    """A marked spike at 2 s crossed nothing; the one at 8 s was answered in 3.75 s."""
    rates = ((0, 150, False), (2, 150, True), (4, 150, False), (8, 1500, True), (28, 150, False))
    points = [{"second": s, "rate_per_second": r, "is_spike": m} for s, r, m in (*rates,)]
    end = {"second": 32, "rate_per_second": 0, "is_spike": False}
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": [*points, end]})

    verdict = run.judge()

    found = slo(verdict, "reaction_seconds")
    assert (verdict.status, found.value) == ("pass", REACTION_SECONDS)
    assert found.reason.startswith("load step 2 of 2")


def test_a_later_burst_that_no_pod_answered_fails(run: TamperedRun) -> None:
    """The first burst of two was answered; after the second one lag stayed above for 20 s."""
    rates = (
        (0, 150, False),
        (8, 1500, True),
        (14, 1500, False),
        (16, 1500, True),
        (28, 150, False),
    )
    points = [{"second": s, "rate_per_second": r, "is_spike": m} for s, r, m in (*rates,)]
    end = {"second": 32, "rate_per_second": 0, "is_spike": False}
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": [*points, end]})
    run.edit_yaml("policy.yaml", lambda made: with_ceiling(made, 12))
    run.set_scenario(partitions=12)
    run.edit_records(lambda record: {**record, "partitions": 12}, "stream_started")
    rows = run.rows("lag")
    added = [
        {"at": at, "partition": partition, "end_offset": 0, "committed": None, "lag": 0}
        for at in sorted({row["at"] for row in rows})
        for partition in range(4, 12)
    ]
    run.write_rows("lag", [*rows, *added])

    found = slo(run.judge(), "reaction_seconds")

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


# baseline, flips, what was judged ------------------------------------------------------------


def test_a_policy_that_goes_to_zero_has_its_floor_at_one_under_load(run: TamperedRun) -> None:
    """KEDA must hold one replica while there is anything to do."""

    def edit(policy: Row) -> Row:
        policy["spec"]["minReplicaCount"] = 0
        return policy

    run.edit_yaml("policy.yaml", edit)

    assert slo(run.judge(), "baseline_at_floor").status == "pass"


def test_a_load_that_begins_with_its_spike_has_no_baseline(run: TamperedRun) -> None:
    """The plan has no stretch before it, so there is nothing to judge."""
    points = [
        {"second": 0, "rate_per_second": 150, "is_spike": True},
        {"second": 8, "rate_per_second": 1500, "is_spike": True},
        {"second": 28, "rate_per_second": 150, "is_spike": False},
        {"second": 32, "rate_per_second": 0, "is_spike": False},
    ]
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": points})

    assert slo(run.judge(), "baseline_at_floor").status == "not_judged"


def test_without_any_limit_nothing_passes(run: TamperedRun) -> None:
    """All SLOs are off: zero judged SLOs hold, which is no verdict."""
    slos = run.scenario().slos.model_dump()
    run.set_slos(**{name: False if value is True else None for name, value in slos.items()})

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert verdict.reasons[-1].startswith("nothing was judged")


def test_scale_downs_of_an_idle_group_are_noted(run: TamperedRun) -> None:
    """The stream was over for 23 s: that nothing was lost then proves little."""
    assert any("all scale-downs met an idle group" in note for note in run.judge().notes)


def test_pod_minutes_are_of_the_scenarios_own_stretch(run: TamperedRun) -> None:
    """32 s of the stream; the rest stands beside it, and cannot dilute it."""
    before = run.measure().scaling
    run.edit_records(
        lambda r: {**r, "at": r["at"] + 600 * SECOND} if r.get("name") == "fence_run" else r,
        "phase",
    )
    after = run.measure().scaling

    assert before.pod_minutes == pytest.approx(1.62, abs=0.01)
    assert (after.pod_minutes, after.idle_ratio) == (before.pod_minutes, before.idle_ratio)
    assert before.pod_minutes_after == pytest.approx(1.61, abs=0.01)


# clocks --------------------------------------------------------------------------------------


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
    assert "the clock of consumer-x stepped by -4.000 s at +20.0 s" in verdict.invalid[0]


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
    run.set_slos(reaction_seconds=5)

    measures, verdict = run.measure(), run.judge()

    assert [episode.trigger for episode in measures.rebalances.episodes][:2] == [
        "start",
        "scale_up",
    ]
    assert slo(verdict, "reaction_seconds").status == "pass"
    assert slo(verdict, "reaction_seconds").value == pytest.approx(3.754, abs=0.01)


def test_a_limit_inside_the_bound_of_two_clocks_is_not_decided(run: TamperedRun) -> None:
    """Value and limit are closer than the clocks are known."""
    pods = new_pods(run)
    others = {record["source"] for record in run.records()} - pods
    on_cluster(run, pods, behind_seconds=0)
    bound_clock(run, "node-b", pods, ahead_seconds=0)
    bound_clock(run, "node-a", others, ahead_seconds=0)
    bound_clock(run, "API server", set(), ahead_seconds=0)

    def widen(record: Row) -> Row:
        return {**record, "low_ns": -300_000_000, "high_ns": 300_000_000}

    run.edit_records(widen, "clock_offset")
    statuses = {}
    for limit in (3.0, 3.8, 5.0):
        run.set_slos(reaction_seconds=limit)
        statuses[limit] = slo(run.judge(), "reaction_seconds").status

    assert statuses == {3.0: "fail", 3.8: "undetermined", 5.0: "pass"}
