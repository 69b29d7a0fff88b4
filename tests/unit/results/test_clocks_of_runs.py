"""Recorded runs on other clocks: percentiles of the time lag, and clocks that stepped."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tests.fakes.tampered_run import (
    SECOND,
    Row,
    TamperedRun,
    check,
    new_pods,
    records,
    rows,
    slo,
)
from tests.unit.results.test_tampered_runs import DIP, DRAIN, OPEN, REACTION

from lagbench.report.series import read_series

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
    if gone:
        rank = name.split("_")[2]
        run.set_accounting(time_lag_seconds={k: v for k, v in found.items() if k != rank})
    run.edit_json("manifest.json", lambda manifest: {**manifest, "fidelity": fidelity})

    of_run = "pass" if limit is None else "undetermined"
    check(run, {"run": of_run, name: status}, None, {name: limit})


def bound_clock(
    run: TamperedRun, clock: str, pods: set[str], ahead_seconds: float = 0, within: float = 0.001
) -> None:
    """Add what the recorder found of a clock: its offset, and how exactly."""
    low, high = (round((ahead_seconds + sign * within) * SECOND) for sign in (-1, 1))
    run.add_records(
        {
            "kind": "clock_offset",
            "at": run.at(5),
            "source": run.records("replica_sample")[0]["source"],
            "clock": clock,
            "pods": sorted(pods),
            "low_ns": low,
            "high_ns": high,
            "answers": 30,
            "since_at": run.at(-5),
        }
    )


def on_cluster(run: TamperedRun, pods: set[str], behind_seconds: float = 0) -> None:
    """Let the run be a cluster's, with ``pods`` on a node whose clock is behind."""
    run.edit_json("manifest.json", lambda made: {**made, "fidelity": "kubernetes"})
    shift = round(behind_seconds * SECOND)
    run.edit_records(lambda r: {**r, "at": r["at"] - shift} if r["source"] in pods else r)


def producer_and_pods(run: TamperedRun) -> tuple[set[str], set[str]]:
    """Return the producer's name, and those of the pods that worked."""
    (producer,) = {record["source"] for record in run.records("stream_started")}
    return {producer}, set(run.folder.read_json("accounting.json")["by_pod"])


@pytest.mark.parametrize(
    ("limit", "status"),
    [(6.3, "fail"), (6.4, "undetermined"), (12.3, "undetermined"), (12.4, "pass")],
)
def test_a_percentile_is_judged_with_the_bounds_of_both_clocks(
    run: TamperedRun, limit: float, status: str
) -> None:
    """9.37 s: the pods' clocks are known to 2 s and the producer's to 1 s, so 6.37 to 12.37 s."""
    producer, pods = producer_and_pods(run)
    on_cluster(run, set())
    bound_clock(run, "node-a", pods, within=2)
    bound_clock(run, "node-b", producer, within=1)
    run.set_slos(**{P95: limit})

    assert slo(run.judge(), P95).status == status


def test_a_producer_whose_clock_is_not_bounded_leaves_the_time_lag_open(run: TamperedRun) -> None:
    """It planned the messages, so no bound of the pods' clocks is enough."""
    on_cluster(run, set())
    bound_clock(run, "node-a", producer_and_pods(run)[1])

    check(run, {P95: OPEN, "why": "the producer"}, None, {P95: 300})


def test_on_one_clock_the_difference_of_two_stamps_is_exact(run: TamperedRun) -> None:
    """On the embedded bench, and where both are of one node's clock, whatever its offset is."""
    found = run.measure().lag
    assert (found.clock_error_seconds, found.time_lag_interval(12.5)) == (0, (12.5, 12.5))

    producer, pods = producer_and_pods(run)
    on_cluster(run, set())
    bound_clock(run, "node-a", producer | pods, within=2)
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
    told = {
        **nothing,
        "class": "lost",
        "partition": 0,
        "cause": "none",
        "detail": "never processed",
    }
    run.write_rows("bad_messages", [{**told, "offset": n, "seq": n} for n in range(lost)])
    run.set_accounting(lost=lost)
    run.set_slos(**{P95: 300, "lost": None})

    found = slo(run.judge(), P95)

    assert found.status == status
    assert f"{lost:,} of {planned.planned:,} messages" in found.reason


def stepped(run: TamperedRun) -> None:
    """Let a pod tell that its clock was set back."""
    told = {"kind": "clock_stepped", "source": "consumer-x", "step_seconds": -4.0}
    run.add_records({**told, "at": run.at(20)})


def done_early(run: TamperedRun, row: Row) -> Row:
    """Let messages be done before they were due: an older folder has no record of the step."""
    return {**row, "p50_seconds": -3.9} if run.seconds(row["at"]) > 30 else row


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (stepped, r"consumer-x .*-4\.000 s .*\+12\.0 s"),
        (rows("latency", done_early), "before they were due"),
        # Reports follow the stream's own pace, its end the wall clock.
        (records("stream_finished", lambda _, r: {**r, "at": r["at"] - 4 * SECOND}), "stepped"),
    ],
)
def test_a_clock_that_stepped_invalidates_the_run(run: TamperedRun, damage: Any, why: str) -> None:
    """Instants before and after it do not compare."""
    damage(run)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert re.search(why, verdict.invalid[0])


@pytest.mark.parametrize("off", [-30, 30])
def test_a_pod_with_a_clock_of_its_own_is_found(run: TamperedRun, off: int) -> None:
    """It worked 30 s before it was created, or after it was gone."""
    pod = run.records("pod_started")[-1]["source"]
    run.edit_records(lambda r: {**r, "at": r["at"] + off * SECOND} if r["source"] == pod else r)

    check(run, {"run": OPEN, "doubt": "pod_clock"})


def test_clocks_that_nobody_asked_leave_the_reaction_open(run: TamperedRun) -> None:
    """The new pods' node is 10 s behind: what it stamps looks early, and nothing bounds it."""
    on_cluster(run, new_pods(run), behind_seconds=10)
    limits = {REACTION: 3.5, DRAIN: 60, DIP: 20}

    check(run, {"run": OPEN, **dict.fromkeys(limits, OPEN)}, None, limits)


def test_known_offsets_of_producer_and_pods_leave_the_same_figures(
    run: TamperedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Producer 3 s ahead, pods 0.5 s: the messages are the timeline's, which Spark has shifted."""
    monkeypatch.setattr("lagbench.report.read_against._BUSY_CORES", 0.0)
    expected = run.measure()
    drawn = read_series(run.folder, expected)
    producer, _ = producer_and_pods(run)
    pods = {record["source"] for record in run.records("consumer_progress")}
    others = {record["source"] for record in run.records()} - pods - producer
    on_cluster(run, pods, behind_seconds=-0.5)
    on_cluster(run, producer, behind_seconds=-3)

    def start(row: Row) -> Row:
        return {**row, "stream_started_at": row["stream_started_at"] + 3 * SECOND}

    run.edit_records(start, "stream_started")
    for name in ("manifest.json", "fence.json"):
        run.edit_json(name, start)
    bound_clock(run, "node-p", producer, ahead_seconds=3)
    bound_clock(run, "node-b", pods, ahead_seconds=0.5)
    bound_clock(run, "node-a", others)
    bound_clock(run, "API server", set())

    found = run.measure()

    assert found.load.stream_started_at == expected.load.stream_started_at
    assert found.rebalances.episodes == expected.rebalances.episodes
    shown = read_series(run.folder, found)
    assert {row.pod: row.held.seconds.tolist() for row in shown.pods} == {
        row.pod: row.held.seconds.tolist() for row in drawn.pods
    }
    shown_cpu, drawn_cpu = (series.lines["cpu"]["mean"].values for series in (shown, drawn))
    assert np.array_equal(shown_cpu, drawn_cpu, equal_nan=True)
