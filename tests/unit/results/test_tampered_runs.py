"""Recorded runs that were tampered with: reaction, readings, load and clocks, row by row."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.tampered_run import (
    SECOND,
    Row,
    TamperedRun,
    as_trace,
    both,
    check,
    drop_lag,
    dropped,
    edited,
    new_pods,
    records,
    rows,
    set_lag,
    slo,
    without_pods,
    without_scaling,
)

from lagbench.core.measures.measures import NAMED

REACTION, DRAIN, FLIPS, FLOOR = "reaction_seconds", "drain_seconds", "flips", "baseline_at_floor"
DIP, FALLS = "rebalance_dip_percent", "lag_falls_at_full_parallelism"
PASS, FAIL, OPEN = "pass", "fail", "undetermined"
REACTION_SECONDS = pytest.approx(6.065, abs=0.001)
TOTAL = 22_483
HOUR = 3600 * SECOND


def replicas(**fields: int) -> Any:
    """Return a change of every sample of the replicas."""
    return records("replica_sample", lambda _, r: {**r, **fields})


def never_ready(run: TamperedRun) -> None:
    """Let the new pods be created, and neither Ready nor a member until the end."""
    pods = new_pods(run)

    def edit(record: Row) -> Row | None:
        if record["source"] in pods:
            return None
        return (
            {**record, "ready_at": None, "started_at": None}
            if record.get("pod") in pods
            else record
        )

    run.edit_records(edit)


def profile(*rates: tuple[float, float, bool]) -> Any:
    """Return a scenario whose load is a trace of these points, until 22 s."""
    names = ("second", "rate_per_second", "is_spike")
    points = [dict(zip(names, point, strict=True)) for point in (*rates, (22, 0, False))]
    trace = {"kind": "trace", "file": "t.csv", "points": points}
    return lambda run: run.set_scenario(profile=trace)


BURSTS = ((0, 150, False), (2, 150, True), (4, 150, False), (8, 1500, True), (18, 150, False))
LATER = ((0, 150, False), (8, 1500, True), (12, 1500, False), (14.3, 1500, True), (18, 150, False))


def unanswered_burst(run: TamperedRun) -> None:
    """Let lag stay above after a second burst, with twelve partitions and a ceiling of twelve."""
    profile(*LATER)(run)
    run.edit_yaml("policy.yaml", lambda made: with_spec(made, maxReplicaCount=12))
    run.set_scenario(partitions=12)
    run.set_accounting(partition_counts=None)
    run.edit_records(lambda record: {**record, "partitions": 12}, "stream_started")
    add_partitions(run, range(4, 12))
    run.drop_records("offsets_committed")
    set_lag(run, lambda second, row: 2000 if 14 < second < 60 and row["lag"] else row["lag"])


def add_partitions(run: TamperedRun, partitions: range, from_seconds: float = -1e9) -> None:
    """Add rows of partitions without a message."""
    every = run.rows("lag")
    instants = sorted({row["at"] for row in every if run.seconds(row["at"]) >= from_seconds})
    nothing = {"end_offset": 0, "committed": None, "lag": 0}
    added = [{"at": at, "partition": p, **nothing} for at in instants for p in partitions]
    run.write_rows("lag", [*every, *added])


def with_spec(policy: Row, **fields: int) -> Row:
    """Return the policy with other fields."""
    policy["spec"] |= fields
    return policy


def low_lag(run: TamperedRun) -> None:
    """Let lag never cross its threshold, and no pod come."""
    without_scaling(run)
    set_lag(run, lambda _second, _row: 10)


def known_pods(run: TamperedRun) -> None:
    """Lose the watch of the new pods."""
    pods = new_pods(run)
    run.edit_records(lambda r: None if r["pod"] in pods else r, "pod_seen")


def lost_assignments(run: TamperedRun) -> None:
    """Leave out the assignments until a second after each pod's first work."""
    first_work = {r["source"]: r["at"] for r in run.records("first_record_done")}
    run.edit_records(
        lambda r: None if r["at"] < first_work.get(r["source"], 0) + SECOND else r,
        "partitions_assigned",
    )


def standing(run: TamperedRun) -> None:
    """Let the recorder read the same offsets from +17 s to +37 s, while the pods' commits go on."""
    kept: dict[int, Row] = {}
    samples: list[Row] = []

    def of_table(row: Row) -> Row:
        if run.seconds(row["at"]) < 17:
            kept[row["partition"]] = row
        return {**kept[row["partition"]], "at": row["at"]} if run.seconds(row["at"]) < 37 else row

    def of_record(record: Row) -> Row:
        if run.seconds(record["at"]) < 17:
            samples.append(record)
        is_old = run.seconds(record["at"]) < 37
        return {**record, "partitions": samples[-1]["partitions"]} if is_old else record

    ordered = sorted(run.rows("lag"), key=lambda row: row["at"])
    run.write_rows("lag", [of_table(row) for row in ordered])
    run.edit_records(of_record, "lag_sample")


def made_again(run: TamperedRun, row: Row) -> Row:
    """Let the topic's offsets begin at 0 again at +30 s."""
    if run.seconds(row["at"]) < 30:
        return row
    return {**row, "end_offset": row["end_offset"] // 10, "committed": row["committed"] // 10}


def half_for_a_second(run: TamperedRun) -> None:
    """Let a new leader know of half of the records for one second; the sample is left out."""
    one = min(row["at"] for row in run.rows("lag") if run.seconds(row["at"]) > 30)
    run.edit_rows(
        "lag",
        lambda row: {**row, "end_offset": row["end_offset"] // 2} if row["at"] == one else row,
    )
    run.edit_records(lambda r: None if r["at"] == one else r, "lag_sample")


def an_hour_ahead(_: TamperedRun, record: Row) -> Row:
    """Stamp a pod by the clock of an API server that is an hour ahead."""
    stamps = ("created_at", "ready_at", "started_at", "deleted_at")
    return {**record, **{name: record[name] and record[name] + HOUR for name in stamps}}


def skewed(run: TamperedRun) -> None:
    """Let the log hold what keys of a steeper distribution send."""
    counts = run.folder.read_json("accounting.json")["partition_counts"]
    moved = counts["0"] // 4
    more = {"0": counts["0"] - moved, "1": counts["1"] + moved}
    run.set_accounting(partition_counts={**counts, **more})


def without_start(run: TamperedRun) -> None:
    """Let nobody say when the stream began."""
    run.drop_records("stream_started")
    for name in ("manifest.json", "fence.json"):
        run.edit_json(name, lambda made: {**made, "stream_started_at": None})


def refused(count: int) -> Any:
    """Let the broker have rejected ``count`` messages."""
    acked = TOTAL - count
    told = {"produced_acked": acked, "produced_failed": count, "in_log": acked}
    return both(
        records("stream_finished", lambda _, r: {**r, "acked": acked, "failed": count}),
        lambda run: run.set_accounting(**told, processed_distinct=acked),
    )


def empty_log(run: TamperedRun) -> None:
    """Let all end offsets of the fence be 0."""
    empty = dict.fromkeys(map(str, range(4)), 0)
    run.edit_json("fence.json", lambda made: {**made, "events": empty, "committed": empty})


def held_back(waiting: int, from_seconds: float, until_seconds: float) -> Any:
    """Let messages wait in the producer's client for so long."""

    def edit(run: TamperedRun, record: Row) -> Row:
        is_inside = from_seconds <= run.seconds(record["at"]) <= until_seconds
        return {**record, "acked": record["sent"] - waiting} if is_inside else record

    return records("producer_progress", edit)


def silent(from_seconds: float, until_seconds: float) -> Any:
    """Let no report of the producer come for so long."""
    return dropped("producer_progress", from_seconds=from_seconds, until_seconds=until_seconds)


def planned_earlier(seconds: float) -> Any:
    """Let the policy's cron windows have been placed for a start that much earlier."""
    return lambda run: run.edit_json(
        "manifest.json", lambda made: {**made, "stream_planned_at": run.at(-seconds)}
    )


def steady(run: TamperedRun) -> None:
    """Let the scenario have another load than the producer sent."""
    run.set_scenario(profile={"kind": "steady", "rate_per_second": 150, "duration_seconds": 22})


def later_start(run: TamperedRun) -> None:
    """Move the producer's word: the reaction would be shorter than the limit."""
    run.edit_records(
        lambda r: {**r, "stream_started_at": r["stream_started_at"] + 3 * SECOND}, "stream_started"
    )
    run.drop_records("load_step")


Table = dict[str, tuple[Any, ...]]
"""What is expected, the change, and limits if they are other than the run's."""

REACTION_OF: Table = {
    # Step, joins and work are on record; when the pods were Ready nobody saw.
    "a lost watch of the pods": ({REACTION: OPEN}, dropped("pod_seen", "pods_listed")),
    "a watch that lost the new pods": ({REACTION: OPEN}, known_pods),
    "pods that never came": ({REACTION: FAIL}, lambda run: without_pods(run, new_pods(run))),
    "pods that never became Ready": ({REACTION: FAIL}, never_ready),
    # 4 of 4 were Ready at the step: none could be added.
    "replicas at the ceiling": (
        {"agreed": True, REACTION: (PASS, 0)},
        both(without_scaling, replicas(spec=4, current=4, ready=4)),
    ),
    "wanted before the step": (
        {REACTION: (PASS, REACTION_SECONDS)},
        both(dropped("scaled", "replicas_changed"), replicas(spec=4)),
    ),
    "lag that never crossed": (
        {"agreed": True, REACTION: (PASS, 0)},
        both(low_lag, dropped("offsets_committed")),
    ),
    # No pod came, and whether one was due nobody knows.
    "lag that was not seen": ({REACTION: OPEN}, both(low_lag, lambda run: drop_lag(run, 10, 16))),
    # The crossing is a link of the chain; the value is of step, Ready and assigned.
    "a late first sample of lag": (
        {REACTION: (PASS, REACTION_SECONDS)},
        lambda run: drop_lag(run, -1e9, 14),
        {REACTION: 7},
    ),
    "a burst that crossed nothing": (
        {"run": PASS, REACTION: (PASS, REACTION_SECONDS), "why": "load step 2 of 2"},
        profile(*BURSTS),
    ),
    "a later burst that no pod answered": (
        {"agreed": True, REACTION: FAIL, "why": "load step 2 of 2"},
        unanswered_burst,
    ),
    "replicas that nobody saw": (
        {"run": OPEN},
        dropped("replica_sample", "hpa_sync", "keda_poll", "replicas_watched"),
    ),
    # The pods count their rebalances: what a later record shows is the latest instant only.
    "a lost assignment": ({REACTION: OPEN}, lost_assignments, {REACTION: 4}),
}
READINGS: Table = {
    "readings that stand still": ({"run": OPEN, DRAIN: OPEN}, standing, {DRAIN: 15}),
    "a topic that was made again": (
        {"run": OPEN, "doubts": {"fallen_offsets"}, "lost": OPEN},
        both(rows("lag", made_again), dropped("lag_sample")),
    ),
    "an end offset that is back at once": ({"run": PASS, "doubts": set()}, half_for_a_second),
    # The API server answers for 20 s with the replicas of before the scale-up.
    "samples behind the pods": (
        {"run": OPEN, "doubts": {"stale_replicas"}},
        records("replica_sample", edited(9.8, 32, current=1, ready=1)),
    ),
    "stamps an hour off": (
        {"run": OPEN, "doubt": "stamps_apart"},
        records("pod_seen", an_hour_ahead),
    ),
    # It ended in order; nobody lost what the ledger lacks.
    "a pod that counted more than its rows": (
        {"run": OPEN, "doubts": {"pods_totals"}},
        records("pod_stopped", lambda _, r: {**r, "processed_total": r["processed_total"] + 7}),
    ),
    "another skew than the planned one": ({"run": OPEN, "invalid": "keys"}, skewed),
    # Nobody looked whether lag came down within 10 s.
    "a recorder that died after the spike": (
        {DRAIN: OPEN},
        both(
            lambda run: set_lag(run, lambda _second, row: row["lag"] or 0),
            lambda run: drop_lag(run, 18.5, 1e9),
            dropped("lag_sample", from_seconds=18.5),
        ),
        {DRAIN: 10},
    ),
    # From the spike's end to 12 s after: it was drained in 0 to 12.3 s.
    "a drain in a gap": (
        {DRAIN: (OPEN, pytest.approx(12.3, abs=0.1))},
        lambda run: drop_lag(run, 18.5, 30),
        {DRAIN: 10},
    ),
    "a partition without any row": (
        {"run": OPEN, DRAIN: OPEN},
        rows("lag", lambda _, row: None if row["partition"] == 3 else row),
        {DRAIN: 60},
    ),
    # KEDA's polls continue while nobody saw how many replicas were wanted.
    "polls alone": (
        {FLIPS: OPEN},
        both(
            dropped("replica_sample", "replicas_watched", from_seconds=12, until_seconds=38),
            dropped("hpa_sync", "scaled", "replicas_changed"),
        ),
    ),
}
SILENT = {"run": OPEN, "invalid": "no report of the producer"}
JUDGED = dict.fromkeys((REACTION, DRAIN, FALLS, FLIPS, FLOOR), PASS)
LOADS: Table = {
    # One rise and one return are no flip, the baseline is before the spike, lag is judged.
    "a trace of the spike": ({"run": PASS, **JUDGED}, as_trace, {DRAIN: 60}),
    "a dead autoscaler under a trace": (
        {"run": FAIL, REACTION: FAIL, DRAIN: FAIL},
        both(as_trace, without_scaling),
        {REACTION: 5, DRAIN: 10},
    ),
    "another load than the scenario's": ({"run": OPEN, "invalid": "16,800"}, steady),
    "a stream without a start": ({"run": OPEN, "invalid": "start of the stream"}, without_start),
    "two starts of one stream": ({"run": OPEN}, later_start),
    # The manifest has the same instant.
    "without the producer's first word": (
        {"run": PASS, REACTION: (PASS, REACTION_SECONDS)},
        dropped("stream_started"),
    ),
    "few refused deliveries": ({"run": OPEN, "invalid": "40 were rejected"}, refused(40)),
    "refused deliveries": ({"run": OPEN, "invalid": "15,000 were rejected"}, refused(15_000)),
    "an empty log": ({"run": OPEN}, empty_log),
    # Kafka took the spike more than a second late, and lag is small.
    "a backlog in the client": (
        {"run": OPEN, "invalid": "the producer's client"},
        both(held_back(1600, 10, 18), lambda run: set_lag(run, lambda _second, _row: 10)),
        {DRAIN: 10},
    ),
    # Two lost reports are noise; 5 s without any may hold a backlog, and so may all.
    "a producer silent for 2 s": ({"run": PASS}, silent(10.5, 13)),
    "a producer silent for 5 s": (SILENT, silent(10.5, 16)),
    "a silent producer": (SILENT, silent(-1e9, 1e9)),
    "cron windows in time": ({"run": PASS}, planned_earlier(0)),
    "missed cron windows": ({"run": OPEN, "invalid": "+4.0 s"}, planned_earlier(4)),
    # KEDA must hold one replica while there is anything to do.
    "a floor of zero": (
        {"agreed": True, FLOOR: PASS},
        lambda run: run.edit_yaml("policy.yaml", lambda made: with_spec(made, minReplicaCount=0)),
    ),
    "a load that begins with its spike": (
        {FLOOR: "not_judged"},
        profile((0, 150, True), (8, 1500, True), (18, 150, False)),
    ),
}
EVERY = {"nothing": ({"run": PASS, "doubts": set()},), **REACTION_OF, **READINGS, **LOADS}


@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_a_tampered_run_is_judged_by_what_is_known(run: TamperedRun, case: Any) -> None:
    """Each row has a change, and what the verdict says of it."""
    check(run, *case)


def test_replicas_that_were_wanted_but_not_ready_are_not_there(run: TamperedRun) -> None:
    """4 wanted and 1 Ready at the step, and none after it: that reacts in no time at all."""
    without_scaling(run)
    replicas(spec=4, current=4, ready=1)(run)

    assert slo(run.judge(), REACTION).status != "pass"


def test_pods_that_nobody_watched_leave_the_pod_time_open(run: TamperedRun) -> None:
    """Members of the group without a record of their pods cost time that is in no sum."""
    pods = new_pods(run)
    run.set_slos(pod_minutes=0.9)
    assert slo(run.judge(), "pod_minutes").status == "fail"
    known_pods(run)

    found = slo(run.judge(), "pod_minutes")
    run.set_slos(pod_minutes=0.1)
    sure = slo(run.judge(), "pod_minutes")

    assert (found.status, sure.status) == ("undetermined", "fail")
    assert sure.reason.endswith(found.reason)
    assert all(pod in found.reason for pod in pods)
    measures = run.measure()
    assert NAMED["pod_minutes"].read(measures) is None
    assert measures.scaling.pod_minutes_after is None
    assert measures.paid_for_itself.net_records_per_pod_minute is None


def test_stale_readings_are_named_in_a_note(run: TamperedRun) -> None:
    """With the instant from which they stand still."""
    standing(run)

    assert [note for note in run.judge().notes if "stale" in note and "from +9" in note]


def test_samples_that_know_nothing_are_a_gap(run: TamperedRun) -> None:
    """There are rows, but no total: the drain's precision is the distance to the last known."""
    set_lag(run, lambda second, row: None if 30 < second < 41 else row["lag"])

    assert run.measure().drain.precision_seconds == pytest.approx(12, abs=1)


@pytest.mark.parametrize("added_seconds", [10.0, 35.0])
def test_a_partition_added_in_mid_run_moves_no_earlier_number(
    run: TamperedRun, added_seconds: float
) -> None:
    """Before its first row it held nothing."""
    before = run.measure()
    add_partitions(run, range(4, 5), added_seconds)

    after = run.measure()

    assert after.reaction.assigned_seconds == before.reaction.assigned_seconds
    assert after.reaction.links[1] == before.reaction.links[1]
    assert (after.lag.peak_records, after.drain) == (before.lag.peak_records, before.drain)


def test_lag_is_not_drained_while_the_client_holds_messages_back(run: TamperedRun) -> None:
    """Lag is low from the spike's end on, because the rest had not come: drained after that."""
    held_back(9000, 17, 21.5)(run)
    set_lag(run, lambda second, row: 10 if second > 18 else row["lag"])

    assert run.measure().drain.drain_seconds >= 3.0


# Percentiles of the time lag ---------------------------------------------------------------------


# Clocks ------------------------------------------------------------------------------------------
