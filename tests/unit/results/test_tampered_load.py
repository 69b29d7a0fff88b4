"""Loads other than planned, in recorded runs that were tampered with."""

from __future__ import annotations

import pytest
from tests.fakes.tampered_run import (
    SECOND,
    Row,
    TamperedRun,
    as_trace,
    set_lag,
    slo,
    without_scaling,
)

TOTAL = 22_483

REACTION_SECONDS = pytest.approx(6.065, abs=0.001)


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


def test_a_load_that_the_scenario_does_not_have_is_invalid(run: TamperedRun) -> None:
    """A scenario made steady afterwards is not what the producer sent."""
    run.set_scenario(profile={"kind": "steady", "rate_per_second": 150, "duration_seconds": 22})

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert any("16,800" in reason for reason in verdict.invalid)


def test_a_stream_without_a_start_is_not_judged_by_its_spike(run: TamperedRun) -> None:
    """Neither the producer nor the manifest says when it began."""
    run.drop_records("stream_started")
    for name in ("manifest.json", "fence.json"):
        run.edit_json(name, lambda made: {**made, "stream_started_at": None})

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "start of the stream" in verdict.invalid[0]
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


def refused(run: TamperedRun, count: int) -> None:
    """Let the broker have rejected ``count`` messages."""
    acked = TOTAL - count
    run.edit_records(lambda r: {**r, "acked": acked, "failed": count}, "stream_finished")
    run.set_accounting(produced_acked=acked, produced_failed=count)


@pytest.mark.parametrize("count", [40, 15_000])
def test_refused_deliveries_are_another_load(run: TamperedRun, count: int) -> None:
    """However few: what Kafka took is not what was planned."""
    refused(run, count)
    run.set_accounting(in_log=TOTAL - count, processed_distinct=TOTAL - count)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert f"{count:,} were rejected" in verdict.invalid[0]
    assert not [result for result in verdict.slos if result.status == "pass"]


def test_an_empty_log_never_passes(run: TamperedRun) -> None:
    """The fence alone shows it: all its end offsets are 0."""
    empty = dict.fromkeys(map(str, range(4)), 0)
    run.edit_json("fence.json", lambda made: {**made, "events": empty, "committed": empty})

    assert run.judge().status == "undetermined"


def hold_back(run: TamperedRun, waiting: int) -> None:
    """Let ``waiting`` messages wait in the producer's client from 10 s to 18 s."""

    def edit(record: Row) -> Row:
        is_inside = 10 <= run.seconds(record["at"]) <= 18
        return {**record, "acked": record["sent"] - waiting} if is_inside else record

    run.edit_records(edit, "producer_progress")


def test_a_backlog_in_the_producers_client_is_a_late_load(run: TamperedRun) -> None:
    """1,600 of 1,500/s wait: Kafka took the spike more than a second late, and lag is small."""
    hold_back(run, 1600)
    set_lag(run, lambda _second, _row: 10)
    run.set_slos(drain_seconds=10)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert "the producer's client" in verdict.invalid[0]
    assert slo(verdict, "drain_seconds").status == "undetermined"


def test_lag_is_not_drained_while_the_client_holds_messages_back(run: TamperedRun) -> None:
    """Lag is low from the spike's end on, because the rest had not come: drained after that."""

    def edit(record: Row) -> Row:
        is_inside = 17 <= run.seconds(record["at"]) <= 21.5
        return {**record, "acked": record["sent"] - 9000} if is_inside else record

    run.edit_records(edit, "producer_progress")
    set_lag(run, lambda second, row: 10 if second > 18 else row["lag"])

    assert run.measure().drain.drain_seconds >= 3.0


@pytest.mark.parametrize(
    ("span", "status"),
    [((10.5, 13), "pass"), ((10.5, 16), "undetermined"), ((-1e9, 1e9), "undetermined")],
)
def test_a_silent_producer_leaves_the_load_unknown(
    run: TamperedRun, span: tuple[float, float], status: str
) -> None:
    """Two lost reports are noise; 5 s without any may hold a backlog, and so may all."""
    run.drop_records("producer_progress", from_seconds=span[0], until_seconds=span[1])

    verdict = run.judge()

    assert verdict.status == status
    assert any("no report of the producer" in why for why in verdict.invalid) is (status != "pass")


@pytest.mark.parametrize(("late_seconds", "status"), [(0.0, "pass"), (4.0, "undetermined")])
def test_a_stream_that_missed_its_cron_windows_is_not_judged(
    run: TamperedRun, late_seconds: float, status: str
) -> None:
    """The policy's windows were placed for another start than the stream's own."""
    planned = run.at(-late_seconds)
    run.edit_json("manifest.json", lambda made: {**made, "stream_planned_at": planned})

    verdict = run.judge()

    assert verdict.status == status
    assert any("+4.0 s" in reason for reason in verdict.invalid) is (status == "undetermined")


def test_a_policy_that_goes_to_zero_has_its_floor_at_one_under_load(run: TamperedRun) -> None:
    """KEDA must hold one replica while there is anything to do."""

    def edit(policy: Row) -> Row:
        policy["spec"]["minReplicaCount"] = 0
        return policy

    run.edit_yaml("policy.yaml", edit)

    assert slo(run.judge_beyond_doubt(), "baseline_at_floor").status == "pass"


def test_a_load_that_begins_with_its_spike_has_no_baseline(run: TamperedRun) -> None:
    """The plan has no period before it, so there is nothing to judge."""
    points = [
        {"second": 0, "rate_per_second": 150, "is_spike": True},
        {"second": 8, "rate_per_second": 1500, "is_spike": True},
        {"second": 18, "rate_per_second": 150, "is_spike": False},
        {"second": 22, "rate_per_second": 0, "is_spike": False},
    ]
    run.set_scenario(profile={"kind": "trace", "file": "t.csv", "points": points})

    assert slo(run.judge(), "baseline_at_floor").status == "not_judged"


def test_pod_minutes_are_of_the_planned_window(run: TamperedRun) -> None:
    """22 s of the stream; the rest stands beside it, and cannot dilute it."""
    before = run.measure().scaling
    run.edit_records(
        lambda r: {**r, "at": r["at"] + 600 * SECOND} if r.get("name") == "fence_run" else r,
        "phase",
    )
    after = run.measure().scaling

    assert before.pod_minutes == pytest.approx(0.98, abs=0.01)
    assert (after.pod_minutes, after.idle_ratio) == (before.pod_minutes, before.idle_ratio)
    assert before.pod_minutes_after == pytest.approx(1.67, abs=0.01)


P95, P99 = "time_lag_p95_seconds", "time_lag_p99_seconds"


@pytest.mark.parametrize(
    ("limit", "of_p95", "of_p99"),
    [(9.3, "fail", "fail"), (9.5, "pass", "fail"), (9.8, "pass", "pass")],
)
def test_each_percentile_is_judged_by_itself(
    run: TamperedRun, limit: float, of_p95: str, of_p99: str
) -> None:
    """A limit between both holds for 95 % of the messages and not for 99 %."""
    run.set_slos(**{P95: limit, P99: limit})

    verdict = run.judge()

    assert (slo(verdict, P95).status, slo(verdict, P99).status) == (of_p95, of_p99)
    assert verdict.status == of_p99
    assert slo(verdict, P95).value == pytest.approx(9.371884649)
    assert slo(verdict, P95).threshold == f"at most {limit:g} s"


@pytest.mark.parametrize("name", [P95, P99])
@pytest.mark.parametrize(
    ("gone", "fidelity", "limit", "status"),
    [
        (True, "processes", 300, "undetermined"),  # a folder without that percentile
        (True, "processes", None, "not_judged"),  # what nobody asked for decides nothing
        # The pods stamp what they have done: without a bound of their clocks it is not known.
        (False, "kubernetes", 300, "undetermined"),
    ],
)
def test_a_percentile_that_is_not_known_passes_nothing(
    run: TamperedRun, name: str, *, gone: bool, fidelity: str, limit: int | None, status: str
) -> None:
    """With a limit the run is undetermined, without one it passes."""
    found = run.folder.read_json("accounting.json")["time_lag_seconds"]
    rank = name.split("_")[2]
    if gone:
        run.set_accounting(time_lag_seconds={k: v for k, v in found.items() if k != rank})
    run.edit_json("manifest.json", lambda manifest: {**manifest, "fidelity": fidelity})
    run.set_slos(**{name: limit})

    verdict = run.judge()

    assert slo(verdict, name).status == status
    assert verdict.status == ("pass" if limit is None else "undetermined")


def cluster_with_bounds(
    run: TamperedRun, *, pods_seconds: float, producer: bool, nodes: int = 2
) -> None:
    """Let the run be a cluster's: the pods' clocks are known to so much, the producer's to 1 s."""
    run.edit_json("manifest.json", lambda found: {**found, "fidelity": "kubernetes"})
    sent = run.records("stream_started")[0]["source"]
    bounds = {"node-a": (pods_seconds, list(run.folder.read_json("accounting.json")["by_pod"]))}
    if producer and nodes == 1:
        bounds["node-a"][1].append(sent)
    elif producer:
        bounds["node-b"] = (1.0, [sent])
    for clock, (seconds, pods) in bounds.items():
        run.add_records(
            {
                "kind": "clock_offset",
                "at": run.at(5),
                "source": run.records("replica_sample")[0]["source"],
                "clock": clock,
                "pods": pods,
                "low_ns": -round(seconds * SECOND),
                "high_ns": round(seconds * SECOND),
                "answers": 30,
                "since_at": run.at(-5),
            }
        )


@pytest.mark.parametrize(
    ("limit", "status"),
    [(6.3, "fail"), (6.4, "undetermined"), (12.3, "undetermined"), (12.4, "pass")],
)
def test_a_percentile_is_judged_with_the_bounds_of_both_clocks(
    run: TamperedRun, limit: float, status: str
) -> None:
    """9.37 s: the pods' clocks are known to 2 s and the producer's to 1 s, so 6.37 to 12.37 s."""
    cluster_with_bounds(run, pods_seconds=2, producer=True)
    run.set_slos(**{P95: limit})

    assert slo(run.judge(), P95).status == status


def test_a_producer_whose_clock_is_not_bounded_leaves_the_time_lag_open(run: TamperedRun) -> None:
    """It planned the messages, so no bound of the pods' clocks is enough."""
    cluster_with_bounds(run, pods_seconds=0.001, producer=False)
    run.set_slos(**{P95: 300})

    found = slo(run.judge(), P95)

    assert found.status == "undetermined"
    assert "the producer" in found.reason


def test_on_one_clock_the_difference_of_two_stamps_is_exact(run: TamperedRun) -> None:
    """On the embedded bench, and where both are of one node's clock, whatever its offset is."""
    found = run.measure().lag
    assert found.clock_error_seconds == 0
    assert found.time_lag_interval(12.5) == (12.5, 12.5)

    cluster_with_bounds(run, pods_seconds=2, producer=True, nodes=1)
    assert run.measure().lag.clock_error_seconds == 0


@pytest.mark.parametrize(("share", "status"), [(0.3, "fail"), (0.01, "pass")])
def test_a_run_that_lost_messages_kept_its_time_lag_only_if_few_are_missing(
    run: TamperedRun, share: float, status: str
) -> None:
    """Lost messages of the planned window are counted by their sequence numbers."""
    planned = run.measure().lag.never_done
    assert planned is not None
    assert planned.at_most == 0
    lost = round(share * planned.planned)
    nothing = dict.fromkeys(("entity_id", "pod", "other_pod", "at", "cause_at", "cause_pod"))
    rows = [
        {**nothing, "class": "lost", "partition": 0, "offset": n, "seq": n, "cause": "none"}
        for n in range(lost)
    ]
    run.write_rows("bad_messages", [{**row, "detail": "never processed"} for row in rows])
    run.set_accounting(lost=lost)
    run.set_slos(**{P95: 300, "lost": None})

    found = slo(run.judge(), P95)

    assert found.status == status
    assert f"{lost:,} of {planned.planned:,} messages" in found.reason
