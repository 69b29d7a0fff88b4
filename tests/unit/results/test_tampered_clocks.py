"""Clocks that stepped or differ, in recorded runs that were tampered with."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun, new_pods, slo

from lagbench.report.run_series import read_series


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
    assert {row.pod: row.seconds.tolist() for row in shown.pods} == {
        row.pod: row.seconds.tolist() for row in drawn.pods
    }
    assert np.array_equal(shown.cpu_mean.values, drawn.cpu_mean.values, equal_nan=True)
