"""What the accounting says of single messages, of a user's consumer, and of a run over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.spark_jobs import mutations
from tests.unit.spark_jobs.accounted import accounted
from tests.unit.spark_jobs.mutations import KEPT
from tests.unit.spark_jobs.synthetic_run import (
    MILLISECOND,
    STREAM_STARTED_AT,
    clean_run,
    events_of,
    processed_of,
)

from lagbench_spark import schemas
from lagbench_spark.bad_messages import fair_share
from lagbench_spark.landing import Stranger
from lagbench_spark.timelines import percentiles, timeline

RUN = clean_run(count=300)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"seq": -1}, "without the run's identity"),
        ({"producer_id": 1}, "of another producer"),
        ({"producer_id": 1, "seq": 300}, "of another producer"),
        ({"seq": 300}, "of a seq beyond those produced"),
        ({"planned_offset_ns": 20 * 10**9}, "planned outside the stream"),
        ({"seq": 300, "planned_offset_ns": 20 * 10**9}, "of a seq beyond those produced"),
    ],
)
def test_a_stranger_has_one_reason(tmp_path: Path, fields: dict[str, int], reason: str) -> None:
    """It is in the log, and in no other class; the message whose place it takes is absent."""
    run = clean_run(count=300)
    producer = fields.get("producer_id", 0)
    for name in fields.keys() - {"producer_id"}:
        run.messages[name][100] = fields[name]
    rows = events_of(run).to_pylist()
    for row in rows:
        is_stranger = row["seq"] == run.messages["seq"][100]
        row["producer_id"] = producer if is_stranger else row["producer_id"]
    events = pa.Table.from_pylist(rows, schemas.EVENTS)

    content, tables = accounted(run, tmp_path, events=events)

    (foreign,) = (row for row in tables["bad_messages"].to_pylist() if row["class"] == "foreign")
    assert foreign["detail"].endswith(reason)
    assert (content["in_log"], content["foreign"], content["processed_foreign"]) == (300, 1, 1)
    assert (content["processed_records"], content["processed_distinct"]) == (300, 299)
    assert content["not_in_log"] == 1
    (place,) = content["strangers"]
    assert place["detail"] == foreign["detail"]


@pytest.mark.parametrize("offset", [-1, 10_000])
@pytest.mark.parametrize("partition", [KEPT, 77, -1])
def test_work_of_no_place_of_the_log_is_of_no_message(
    tmp_path: Path, partition: int, offset: int
) -> None:
    """The fence says which places the log has."""
    run = clean_run(count=300)
    run.work["partition"][0], run.work["offset"][0] = partition, offset

    content, tables = accounted(run, tmp_path)

    assert (content["unknown_message"], content["lost"], content["processed_records"]) == (
        1,
        1,
        300,
    )
    rows = {row["class"]: row for row in tables["bad_messages"].to_pylist()}
    assert rows["unknown_message"]["partition"] == partition


def test_what_is_no_ledger_record_is_no_work(tmp_path: Path) -> None:
    """Its row has only a place and a reason."""
    nothing = dict.fromkeys(schemas.PROCESSED.names) | {"ledger_partition": 1, "ledger_offset": 2}
    row = pa.Table.from_pylist([{**nothing, "foreign": "3 bytes"}], schemas.PROCESSED)
    work = pa.concat_tables([processed_of(RUN).cast(schemas.PROCESSED), row])

    content, _ = accounted(RUN, tmp_path, processed=work)

    assert (content["foreign_ledger_records"], content["processed_records"]) == (1, 300)
    assert content["strangers"] == [
        {"topic": "processed", "partition": 1, "offset": 2, "detail": "3 bytes"}
    ]


def test_the_first_records_of_a_topic_that_are_none_are_named(tmp_path: Path) -> None:
    """All are counted, and five are listed in the order of the log."""
    found = tuple(Stranger("telemetry", 0, offset, "a text") for offset in range(9, 1, -1))

    content, _ = accounted(RUN, tmp_path, strangers=found)

    assert content["foreign_telemetry_records"] == 8
    assert [place["offset"] for place in content["strangers"]] == [2, 3, 4, 5, 6]


def test_holes_are_told_from_what_expired(tmp_path: Path) -> None:
    """Offsets before the log's start are expired; absent ones after it are holes."""
    run, ends = clean_run(count=300), RUN.end_offsets()
    is_gone = (run.messages["partition"] == 1) & np.isin(run.messages["offset"], [0, 1, 2, 7])
    run.messages = run.messages[~is_gone]

    content, _ = accounted(run, tmp_path, ends)

    assert (content["expired"], content["log_holes"], content["not_in_log"]) == (3, 1, 4)
    assert content["partition_counts"]["1"] == ends[1] - 4
    assert content["unknown_message"] == 4


def test_the_bound_of_two_clocks_leaves_the_order_of_a_key_in_doubt(tmp_path: Path) -> None:
    """The later message was begun 3 ms before, by another pod: less than both clocks may err."""
    run = clean_run()
    mutations.leave_one_of_a_key_to_the_next_owner(run)
    mutations.put_the_producers_clock_ahead(run, 0)
    sure, _ = accounted(run, tmp_path / "sure")

    for record in run.telemetry:
        if record.source == "recorder":
            record.low_ns, record.high_ns = -500 * MILLISECOND, 500 * MILLISECOND  # type: ignore[attr-defined]
    doubtful, _ = accounted(run, tmp_path / "doubtful")

    assert (sure["reordered"], doubtful["reordered"]) == (1, 0)
    assert doubtful["reordered_in_doubt"] >= 1


@pytest.mark.parametrize(
    ("level", "unknown", "known"),
    [
        (
            "commits",
            ("lost", "duplicated", "reordered", "zombie", "failed", "processed_distinct"),
            ("in_log", "not_in_log", "log_holes"),
        ),
        ("output", ("zombie", "zombie_in_doubt", "failed"), ("lost", "duplicated", "outside_run")),
    ],
)
def test_what_a_users_consumer_does_not_show_is_unknown_not_zero(
    tmp_path: Path, level: str, unknown: tuple[str, ...], known: tuple[str, ...]
) -> None:
    """Commits show no message, an output topic no owner: the counts are null."""
    work = processed_of(RUN).slice(0, 0 if level == "commits" else None)

    content, tables = accounted(RUN, tmp_path, processed=work, level=level)

    assert [content[name] for name in unknown] == [None] * len(unknown)
    assert None not in [content[name] for name in known]
    assert tables["bad_messages"].num_rows == 0


def test_an_empty_run_has_no_hottest_partition(tmp_path: Path) -> None:
    """A share of nothing is unknown, and the tables have no row."""
    run = clean_run(count=300)
    run.messages, run.work, run.telemetry = run.messages[:0], run.work[:0], []

    content, tables = accounted(run, tmp_path, processed=schemas.PROCESSED.empty_table())

    assert content["hottest_partition_share"] is content["produced_acked"] is None
    assert content["message_seconds"] is content["time_lag_seconds"]["p50"] is None
    assert {table.num_rows for table in tables.values()} == {0}


def test_a_table_of_many_bad_messages_has_a_fair_share_of_each_class() -> None:
    """The counts are in accounting.json; the table has 100,000 rows at most."""
    kinds = np.repeat(["lost", "zombie"], [150_000, 10])

    shares = pc.value_counts(fair_share(pa.table({"class": kinds}))["class"]).to_pylist()

    assert {share["values"]: share["counts"] for share in shares} == {"lost": 50_000, "zombie": 10}


def test_ranks_of_many_messages_are_off_by_one_in_ten_thousand_at_most(tmp_path: Path) -> None:
    """More than 10,000 messages of one second and partition are summed up."""
    run = clean_run(count=90_000, partitions=1)
    generator = np.random.default_rng(3)
    lags = generator.integers(0, 10**9, 90_000)
    run.work["done_at"] = STREAM_STARTED_AT + 5 * 10**9
    run.work["planned_offset_ns"] = 5 * 10**9 - lags

    found = accounted(run, tmp_path)[0]["time_lag_seconds"]

    ordered = np.sort(lags)
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        rank = np.searchsorted(ordered, round(found[name] * 1e9)) / len(ordered)
        assert rank == pytest.approx(share, abs=1e-4)
    assert found["max"] == ordered[-1] / 1e9
    assert percentiles(np.array([7]), np.ones(1))["p99"] == 7 / 1e9


def test_bins_without_work_are_zero_and_repeats_are_apart() -> None:
    """From the first bin to the last there is a row for each 100 ms."""

    def bins(at: int, count: int) -> pa.Table:
        return pa.table({"at": [at], "count": [count]})

    parts = {"offered": bins(0, 5), "done": bins(300_000_000, 4), "again": bins(300_000_000, 1)}

    columns = timeline(parts).to_pydict()

    assert columns["offered"] == [5, 0, 0, 0]
    assert columns["processed"] == [0, 0, 0, 3]
    assert columns["processed_again"] == [0, 0, 0, 1]


def test_a_gap_lies_between_the_last_and_the_first_of_two_owners(tmp_path: Path) -> None:
    """Each handed-over partition goes from its first owner to pod-c at half time."""
    gaps = accounted(RUN, tmp_path)[1]["partition_gaps"].to_pylist()

    assert [(gap["partition"], gap["from_pod"], gap["to_pod"]) for gap in gaps] == [
        (2, "pod-a", "pod-c"),
        (5, "pod-b", "pod-c"),
    ]
    for gap in gaps:
        done = {pod: RUN.work["done_at"][_of(gap["partition"], pod)] for pod in ("pod-c", None)}
        assert gap["next_done_at"] == done["pod-c"].min()
        assert gap["gap_seconds"] == (gap["next_done_at"] - gap["last_done_at"]) / 1e9


def _of(partition: int, pod: str | None) -> Any:
    return (RUN.work["partition"] == partition) & ((RUN.work["pod"] == pod) | (pod is None))


def test_a_garbled_reading_is_left_out_and_ends_nothing(tmp_path: Path) -> None:
    """Anything may be in a topic: what is no reading is no row."""
    head = '"at": 1, "source": "recorder"'
    good = (
        f'{{"kind": "lag_sample", {head}, "partitions": [[0, 10, null], [1, 9, 4]]}}',
        f'{{"kind": "replica_sample", {head}, "spec": 3, "current": 2, "ready": 1}}',
    )
    bad = (
        "{'kind': 'lag_sample', 'at': 1}",
        "[1]",
        '{"kind": "lag_sample", "at": "now", "source": "r", "partitions": [[0, 1, 1]]}',
        f'{{"kind": "lag_sample", {head}, "partitions": "x"}}',
        f'{{"kind": "lag_sample", {head}, "partitions": [[0, 9999999999999999999, 1]]}}',
        f'{{"kind": "lag_sample", {head}, "partitions": [[9999999999, 1, 1]]}}',
        f'{{"kind": "replica_sample", {head}, "spec": "3", "current": 2, "ready": 1}}',
    )

    _, tables = accounted(RUN, tmp_path, samples=(*bad, *good))

    lag = tables["lag"].to_pylist()
    assert [(row["partition"], row["lag"]) for row in lag] == [(0, None), (1, 5)]
    assert tables["replicas"].to_pylist() == [{"at": 1, "spec": 3, "current": 2, "ready": 1}]
