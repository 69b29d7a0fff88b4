"""Summaries of a run's rows: they do not depend on batches, and say what the rows say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.spark_jobs.run_tables import events_of, processed_of
from tests.unit.spark_jobs.synthetic_run import STREAM_STARTED_AT, clean_run

from lagbench.core.ownership.run_facts import StreamPlan
from lagbench_spark.rows import Rules
from lagbench_spark.summaries import (
    EventsSummary,
    Summary,
    Tables,
    WorkSummary,
    expected_seqs,
    hashed,
    packed,
    united,
)
from lagbench_spark.timelines import percentiles

RUN = clean_run(count=1_200)
RULES = Rules(StreamPlan(None, None, None), RUN.end_offsets(), (0, 2 * STREAM_STARTED_AT))


def of_events() -> Summary:
    """Return the empty summary of events."""
    return EventsSummary(RULES)


def of_work() -> Summary:
    """Return the empty summary of processings."""
    return WorkSummary(RULES, {}, {}, None)


def seen(summary: Summary, table: pa.Table, rows: int) -> bytes:
    """Return what a task sends that gets the table in batches of so many rows."""
    for batch in table.to_batches(max_chunksize=rows):
        summary.add(batch)
    return packed(summary)


def by_key(tables: Tables) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of each table without the order; runs of work depend on the batches."""
    return {
        name: sorted(tuple(row.values()) for row in table.to_pylist())
        for name, table in tables.items()
        if name != "runs"
    }


@pytest.mark.parametrize(
    ("make", "table"), [(of_events, events_of(RUN)), (of_work, processed_of(RUN))]
)
def test_tasks_and_batches_do_not_matter(make, table: pa.Table) -> None:  # noqa: ANN001
    """One task with one batch, or three tasks with batches of 7 rows: the same summary."""
    parts = [table.slice(0, 500), table.slice(500, 1), table.slice(501)]

    whole = united([seen(make(), table.combine_chunks(), 10_000)])
    cut = united([seen(make(), part, 7) for part in parts])

    assert by_key(cut) == by_key(whole)


def test_a_clean_log_has_the_blocks_of_its_work_and_of_its_seqs() -> None:
    """Counts and hashes of both sides are equal; those of a log without one message are not."""
    logged = united([seen(of_events(), events_of(RUN), 300)])
    worked = united([seen(of_work(), processed_of(RUN), 300)])
    less = united([seen(of_events(), events_of(RUN).slice(1), 300)])

    def blocks(tables: Tables, name: str) -> list[tuple[object, ...]]:
        keys = (
            ["partition", "block", "count", "hash"]
            if name != "seqs"
            else ["block", "count", "hash"]
        )
        return by_key({name: tables[name].select(keys)})[name]

    assert blocks(logged, "logged") == blocks(worked, "processed")
    assert blocks(less, "logged") != blocks(worked, "processed")
    assert blocks(logged, "seqs") == blocks({"seqs": expected_seqs(1_200)}, "seqs")
    assert blocks(less, "seqs") != blocks({"seqs": expected_seqs(1_200)}, "seqs")


def test_each_number_of_an_identity_changes_its_hash() -> None:
    """A hundred thousand identities that differ in one number have as many hashes."""
    many, few = np.arange(100_000), np.zeros(100_000, np.int64)

    for columns in ((many, few, few), (few, many, few), (few, few, many)):
        assert len(np.unique(hashed(*columns))) == 100_000
    assert len(np.unique(np.concatenate([hashed(many, few), hashed(few, many)]))) == 199_999


def test_ranks_of_many_messages_are_off_by_one_in_ten_thousand_at_most() -> None:
    """Three tasks with up to 90,000 messages of one second each: their united percentiles."""
    generator = np.random.default_rng(3)
    contents, every = [], []
    for count in (90_000, 30_000, 5):
        lags = generator.integers(0, 10**9, count)
        every.append(lags)
        summary = WorkSummary(RULES, {}, {}, None)
        second = np.full(count, STREAM_STARTED_AT)
        summary.lags.append((second, np.zeros(count, bool), lags))
        contents.append(packed(summary))

    found = united(contents)["lags"]

    assert found.num_rows == 20_005
    ordered = np.sort(np.concatenate(every))
    named = percentiles(found["lag"].to_numpy(), found["weight"].to_numpy())
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        rank = np.searchsorted(ordered, round((named[name] or 0) * 1e9)) / len(ordered)
        assert rank == pytest.approx(share, abs=1e-4)
    assert named["max"] == ordered[-1] / 1e9
