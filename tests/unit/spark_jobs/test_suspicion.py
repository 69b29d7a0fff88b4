"""The places that may be wrong, from runs of work alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lagbench.core.ownership.epochs import Epoch, Span
from lagbench_spark.suspicion import disorder, epochs_of, overlaps, with_epochs
from lagbench_spark.timelines import (
    lag_rows,
    partition_gaps,
    readings,
    replica_rows,
    timeline,
)
from lagbench_spark.transforms.blocks import touched
from lagbench_spark.transforms.work_runs import WORK_RUNS

Run = tuple[int, str, int, int, int, int]  # partition, pod, offsets from and to, begun from and to


def runs(*rows: Run) -> pa.Table:
    """Return runs of work; each message takes 1 ns."""
    return pa.Table.from_pylist(
        [
            {
                "partition": partition,
                "pod": pod,
                "member_id": f"member-{pod}",
                "first_offset": first,
                "last_offset": last,
                "first_started_at": begun,
                "last_started_at": ended,
                "first_done_at": begun + 1,
                "last_done_at": ended + 1,
            }
            for partition, pod, first, last, begun, ended in rows
        ],
        schema=WORK_RUNS,
    )


def test_offsets_of_two_runs_are_shared() -> None:
    """The second run shares 8 and 9 with the first, the third 5 to 7; other partitions do not."""
    found = overlaps(
        runs(
            (0, "a", 0, 9, 0, 9),
            (0, "b", 8, 12, 20, 24),
            (1, "a", 5, 7, 0, 2),
            (0, "c", 5, 7, 30, 32),
        )
    )

    assert sorted(found.to_pylist(), key=lambda row: row["from_offset"]) == [
        {"partition": 0, "from_offset": 5, "to_offset": 7},
        {"partition": 0, "from_offset": 8, "to_offset": 9},
    ]


def test_runs_one_after_the_other_are_in_order() -> None:
    """A partition that goes from pod to pod shows nothing; nor does a log without work."""
    clean = runs((0, "a", 0, 9, 0, 9), (0, "b", 10, 19, 20, 29), (1, "a", 0, 9, 5, 14))

    assert overlaps(clean).num_rows == disorder(clean, 0).num_rows == 0
    assert overlaps(runs()).num_rows == disorder(runs(), 0).num_rows == 0


@pytest.mark.parametrize(("slack_ns", "found"), [(0, 0), (11, 0), (12, 1)])
def test_the_bound_of_two_clocks_makes_runs_parallel(slack_ns: int, found: int) -> None:
    """The next owner begins 11 ns after the last start: in order unless clocks differ by more."""
    handed = runs((0, "a", 0, 9, 0, 9), (0, "b", 10, 19, 20, 29))

    assert disorder(handed, slack_ns).num_rows == found


def test_an_earlier_offset_that_was_begun_later_is_a_region() -> None:
    """Offsets 5 to 7 come after 9: the region reaches from 5 to the furthest offset."""
    (found,) = disorder(runs((0, "a", 8, 9, 0, 1), (0, "a", 5, 7, 3, 5)), 0).to_pylist()

    assert (found["first_offset"], found["furthest"]) == (5, 9)


def test_work_belongs_to_the_span_that_holds_its_start() -> None:
    """Work outside all spans of its pod is in an epoch of its own, from the member's first."""
    spans = [Span(0, "a", 0, 10), Span(0, "a", 10, 20, is_known=False), Span(1, "a", 0, None)]
    work = runs(
        (0, "a", 0, 1, 5, 6), (0, "a", 2, 3, 10, 11), (0, "a", 4, 5, 25, 26), (0, "a", 6, 6, 30, 30)
    )

    found = epochs_of(with_epochs(work, spans))

    assert sorted(found) == [
        Epoch(0, "a", 0, 5, 2),
        Epoch(0, "a", 10, 10, 2, is_known=False),
        Epoch(0, "a", 25, 25, 3, is_reported=False),
    ]


def test_a_region_is_every_block_that_it_touches() -> None:
    """Offsets 4095 to 8192 touch three blocks; each is named once."""
    regions = pa.table({"partition": [0, 0], "first": [4095, 5000], "last": [8192, 5001]})

    found = touched(regions, "first", "last").to_pylist()

    assert sorted(row["block"] for row in found) == [0, 1, 2]
    assert touched(regions.slice(0, 0), "first", "last").num_rows == 0


def test_a_gap_lies_between_the_last_and_the_first_of_two_owners() -> None:
    """Pod a works in two runs until 12, pod b from 21 on; back with a it began before b's end."""
    work = runs(
        (0, "a", 0, 4, 0, 4),
        (0, "a", 6, 9, 8, 11),
        (0, "b", 10, 12, 20, 40),
        (0, "a", 13, 13, 30, 30),
    )

    found = partition_gaps(work)

    assert [(gap["from_pod"], gap["to_pod"]) for gap in found] == [("a", "b"), ("b", "a")]
    assert [gap["gap_seconds"] for gap in found] == [9 / 1e9, -10 / 1e9]


def test_bins_without_work_are_zero_and_repeats_are_apart() -> None:
    """From the first bin to the last there is a row for each 100 ms."""
    bins = {
        at: pa.table({"at": [at], "count": [count]}) for at, count in ((0, 5), (300_000_000, 4))
    }

    rows = timeline(bins[0], bins[300_000_000], pa.table({"at": [300_000_000], "count": [1]}))

    assert [(row["offered"], row["processed"], row["processed_again"]) for row in rows] == [
        (5, 0, 0),
        (0, 0, 0),
        (0, 0, 0),
        (0, 3, 1),
    ]
    assert timeline(None, None, None) == []


def test_a_garbled_reading_is_left_out_and_ends_nothing() -> None:
    """Anything may be in a topic: what is no reading is no row."""
    good = [
        '{"kind": "lag_sample", "at": 1, "partitions": [[0, 10, null], [1, 9, 4]]}',
        '{"kind": "replica_sample", "at": 2, "spec": 3, "current": 2, "ready": 1}',
    ]
    bad = [
        "{'kind': 'lag_sample', 'at': 1}",
        "[1]",
        '{"kind": "lag_sample", "at": "now", "partitions": [[0, 1, 1]]}',
        '{"kind": "lag_sample", "at": 1, "partitions": "x"}',
        '{"kind": "lag_sample", "at":1, "partitions": [7, ["a", 1, 1], [0, 9999999999999999999]]}',
        '{"kind": "replica_sample", "at": 2, "spec": "3", "current": 2, "ready": 1}',
        '{"kind": "replica_sample", "at": 2, "spec": 3, "current": 2}',
    ]

    records = [*readings([*bad, *good])]

    assert [(row["partition"], row["lag"]) for row in lag_rows(records)] == [(0, None), (1, 5)]
    assert [*replica_rows(records)] == [{"at": 2, "spec": 3, "current": 2, "ready": 1}]
