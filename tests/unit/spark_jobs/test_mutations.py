"""The checker is checked: every mutation of a clean run is found, and a clean run is clean."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.unit.spark_jobs import mutations
from tests.unit.spark_jobs.accounted import accounted
from tests.unit.spark_jobs.synthetic_run import (
    MILLISECOND,
    STREAM_STARTED_AT,
    SyntheticRun,
    clean_run,
)

from lagbench.adapters.runs.run_folder import RunFolder as RecordedFolder
from lagbench.core.measures.accounting.accounting import BadMessage, accounting_measure
from lagbench.core.measures.checks import reconciliation
from lagbench.core.measures.evidence.lag_readings import BIN_NS
from lagbench.core.telemetry.records_of_programs import StreamStarted
from lagbench.results.run_tables import read_partition_work, read_rate
from lagbench.shared_with_spark import message_classes
from lagbench.shared_with_spark.spark_job import spark_member


def judged(
    folder: Path, run: SyntheticRun, ends: dict[int, int] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return accounting.json and the bad messages of a run, whose sums hold."""
    content, tables = accounted(run, folder, ends)
    rows: list[dict[str, Any]] = tables["bad_messages"].to_pylist()
    below_fence = sum((ends or run.end_offsets()).values())
    assert contradictions(content, below_fence, Counter(row["class"] for row in rows)) == []
    assert by_partition(folder) == {**drawn(folder), "lost": content["lost"]}
    return content, rows


def drawn(folder: Path) -> dict[str, int]:
    """Return the sums of the timeline."""
    table = pq.read_table(folder / "tables" / "timeline")
    return {name: sum(table[name].to_pylist()) for name in ("offered", "processed")}


def by_partition(folder: Path) -> dict[str, int]:
    """Return the sums of the timeline by partition; no count of a bin is below zero."""
    table = pq.read_table(folder / "tables" / "timeline_by_partition")
    columns = {name: table[name].to_pylist() for name in ("offered", "processed", "lost")}
    assert min([0, *(count for counts in columns.values() for count in counts)]) == 0
    return {name: sum(counts) for name, counts in columns.items()}


def contradictions(content: dict[str, Any], below_fence: int, listed: Counter[str]) -> list[str]:
    """Return which sums of an accounting do not hold."""
    bad = [
        BadMessage(kind, None, None, None, "none", None, None)
        for kind, count in listed.items()
        for _ in range(count)
    ]
    fence = {"events": {"0": below_fence}}
    reasons = reconciliation(accounting_measure(content, bad, fence=fence)).reasons
    return [reason for reason in reasons if "contradicts" in reason or "lacks" in reason]


def found(content: dict[str, Any]) -> dict[str, int]:
    """Return the classes that are not zero."""
    return {kind: content[kind] for kind in message_classes.CLASSES if content[kind]}


def test_clean_run_has_no_bad_message(tmp_path: Path) -> None:
    """A clean run with a handover gives zero in every class and the right totals."""
    run = clean_run()

    content, rows = judged(tmp_path, run)

    assert found(content) == {}
    assert rows == []
    assert content["in_log"] == content["processed_records"] == content["planned"] == 3_000
    assert content["processed_distinct"] == content["produced_acked"] == 3_000
    assert sum(pod["processed"] for pod in content["by_pod"].values()) == 3_000
    assert set(content["by_pod"]) == {"pod-a", "pod-b", "pod-c"}
    assert content["expired"] == content["log_holes"] == content["foreign"] == 0
    assert content["time_lag_seconds"]["p50"] == pytest.approx(0.004)


EXACT: list[Any] = [
    (
        mutations.lose_one_repeat_another_and_swap_two,
        {"lost": 1, "duplicated": 1, "reordered": 1},
    ),
    (mutations.give_up_three_and_do_one_of_them_again, {"failed": 3, "duplicated": 1}),
    (mutations.move_to_another_partition, {"lost": 1, "unknown_message": 1}),
    (mutations.exchange_two_seqs, {"lost": 2, "unknown_message": 2}),
    (mutations.finish_after_the_next_owner_began, {"zombie": 1}),
    (mutations.work_between_the_next_owners_work, {"zombie": 1, "duplicated": 1}),
    (mutations.leave_the_tail_uncommitted, {"not_yet_consumed": 10}),
    (mutations.commit_nothing_and_drop_one, {"not_yet_consumed": 1}),
    (mutations.write_one_seq_twice, {"produced_twice": 1}),
    (mutations.drop_from_the_log, {"not_in_log": 1}),
    (mutations.replay_at_the_handover, {"duplicated": 20}),
    (mutations.give_the_partition_back, {}),
    (mutations.leave_one_of_a_key_to_the_next_owner, {"reordered": 1}),
    (mutations.finish_after_the_former_owner_came_back, {"zombie": 19, "duplicated": 20}),
    (mutations.sign_one_row_by_another_pod, {"zombie": 1}),
    (mutations.add_strangers_of_other_sizes, {"foreign": 6}),
    (mutations.add_strangers_of_the_same_size, {"foreign": 6}),
    (mutations.lose_ten_that_were_acknowledged, {"not_in_log": 10}),
    (mutations.lose_ten_that_failed, {"not_in_log_failed": 10}),
    (mutations.set_the_next_owner_behind, {}),
    (mutations.hide_zombies_by_a_clock_ahead, {"zombie": 20}),
]


@pytest.mark.parametrize(
    ("mutate", "expected"), EXACT, ids=lambda part: getattr(part, "__name__", "")
)
def test_mutation_is_found(
    tmp_path: Path,
    mutate: Callable[[SyntheticRun], None],
    expected: dict[str, int],
) -> None:
    """A mutation is found in exactly its classes, and the table names as many messages."""
    run = clean_run()
    mutate(run)

    content, rows = judged(tmp_path, run)

    assert found(content) == expected
    assert len(rows) == sum(expected.values())
    assert all(row["cause"] in {"rebalance", "sigterm", "killed", "commit", "none"} for row in rows)


def test_random_losses_and_repeats_are_counted(tmp_path: Path) -> None:
    """Forty losses and forty repeats leave the count right and are all found by identity."""
    run = clean_run(seed=7)
    lost, repeated = mutations.lose_and_repeat(run, 40, np.random.default_rng(7))

    content, rows = judged(tmp_path, run)

    assert content["processed_records"] == content["in_log"]
    assert {r["seq"] for r in rows if r["class"] == "lost"} == lost
    assert {r["seq"] for r in rows if r["class"] == "duplicated"} == repeated
    assert found(content) == {"lost": 40, "duplicated": 40}


def test_repeat_after_a_kill_blames_the_killed_pod(tmp_path: Path) -> None:
    """Work that a killed pod had not committed is repeated by its heir because of the kill."""
    run = clean_run()
    mutations.kill_at_the_handover(run, "pod-a", rows=15)

    content, rows = judged(tmp_path, run)

    assert found(content) == {"duplicated": 15}
    assert content["by_cause"] == {"killed": 15}
    assert content["by_pod"]["pod-c"]["duplicated"] == 15
    (bound,) = content["unledgered_bound"]
    assert bound["pod"] == "pod-a"
    assert content["repeats_by_batch"] is None  # of a consumer group
    assert 0 <= bound["seconds"] < 0.1
    assert bound["messages"] == math.ceil(bound["seconds"] * 150)  # its busiest second
    assert {(r["pod"], r["other_pod"], r["cause_pod"]) for r in rows} == {
        ("pod-c", "pod-a", "pod-a")
    }


def test_repeats_on_spark_are_counted_by_batch(tmp_path: Path) -> None:
    """The batch is that of the task that did the messages again, by its name in the ledger."""
    run = clean_run()
    mutations.kill_at_the_handover(run, "pod-a", rows=15)
    run.member = spark_member(7, 31)

    content, _ = judged(tmp_path, run)

    assert content["repeats_by_batch"] == {"7": 15}


def test_loss_names_the_commit_and_the_sigterm(tmp_path: Path) -> None:
    """A message committed before its work and cut off by SIGTERM names pod and SIGTERM."""
    run = clean_run()
    mutations.commit_ahead_then_sigterm(run, rows=5)

    content, rows = judged(tmp_path, run)

    assert found(content) == {"lost": 5}
    assert {(r["pod"], r["cause"], r["cause_pod"]) for r in rows} == {("pod-a", "sigterm", "pod-a")}


def test_failures_without_names_leave_absent_seqs_in_doubt(tmp_path: Path) -> None:
    """Ten failed and ten are absent: they may be the same ten, which proves nothing."""
    run = clean_run()
    mutations.lose_ten_of_ten_failures_without_names(run)

    content, _ = judged(tmp_path, run)

    assert (content["not_in_log"], content["not_in_log_excused"]) == (0, 10)


def test_work_on_strangers_is_nobodys_message(tmp_path: Path) -> None:
    """Six records that look like events are processed: they are in no other count."""
    run = clean_run()
    mutations.add_strangers_of_the_same_size(run)

    content, rows = judged(tmp_path, run)

    assert (content["in_log"], content["processed_distinct"]) == (3_006, 3_000)
    assert content["processed_foreign"] == 6
    assert {" seq " in row["detail"] for row in rows} == {True}
    assert [place["topic"] for place in content["strangers"]] == ["events"] * 5
    timeline = pq.read_table(tmp_path / "tables" / "timeline")
    assert len(timeline) < 1_000  # bins of ten seconds, not of centuries
    assert sum(timeline["offered"].to_pylist()) == 3_000


def test_the_offered_rate_is_on_the_recorders_clock(tmp_path: Path) -> None:
    """The producer is known to be 3 s ahead: offered and done are compared on one clock."""
    ahead_ns = 3_000 * MILLISECOND
    run = clean_run()
    mutations.put_the_producers_clock_ahead(run, ahead_ns)

    judged(tmp_path, run)

    folder = RecordedFolder(tmp_path)
    rate = read_rate(folder)
    offered_at = rate.started_at + np.flatnonzero(rate.offered) * BIN_NS
    assert offered_at.min() == STREAM_STARTED_AT - ahead_ns
    assert rate.offered.sum() == 3_000
    work = read_partition_work(folder, rate, run.partitions, message_seconds=None)
    assert work is not None
    assert work.done is not None
    assert work.done.sum(axis=0).tolist() == rate.processed.tolist()


def test_a_garbled_stamp_is_counted_and_spreads_over_no_time(tmp_path: Path) -> None:
    """One row says it was done in another century: one, and every message is accounted for."""
    run = clean_run()
    mutations.stamp_one_row_in_another_century(run)

    content, _ = judged(tmp_path, run)

    assert (content["outside_run"], content["processed_distinct"]) == (1, 3_000)
    assert content["lost"] == content["zombie"] == 0


def test_a_missing_record_of_a_rebalance_blames_nobody(tmp_path: Path) -> None:
    """Pod-a has the partition back, but its record is lost: no zombie, and the hole is named."""
    run = clean_run()
    mutations.give_the_partition_back_unheard(run)

    content, _ = judged(tmp_path, run)

    assert found(content) == {}
    assert [(u["pod"], u["partitions"]) for u in content["unknown_ownership"]] == [("pod-a", [2])]


def test_clocks_that_nobody_asked_leave_owners_in_doubt(tmp_path: Path) -> None:
    """On a cluster without a bound what looks late may not be: in doubt, and the pods are named."""
    run = clean_run()
    mutations.set_the_next_owner_behind_unasked(run)

    content, _ = judged(tmp_path, run)

    assert content["zombie"] == content["reordered"] == 0
    assert content["zombie_in_doubt"] > 20
    assert content["unbounded_pods"] == ["pod-a", "pod-b", "pod-c"]


def test_the_tail_is_no_part_of_the_time_lag(tmp_path: Path) -> None:
    """The stream's own period ends at 5 s; whatever comes after is told apart."""
    run = clean_run()
    is_late = run.work["planned_offset_ns"] >= 5_000 * MILLISECOND
    run.work["done_at"][is_late] += MILLISECOND
    started = run.telemetry[0]
    assert isinstance(started, StreamStarted)
    started.planned_seconds, started.tail_most_seconds = 5.0, 5.0

    content, _ = judged(tmp_path, run)

    assert content["time_lag_seconds"]["max"] == pytest.approx(0.004)
    assert content["time_lag_seconds_after"]["p50"] == pytest.approx(0.005)
