"""Summarising processings as runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lagbench_spark.transforms.work_runs import runs_of

Row = tuple[int, int, int, int, str]  # partition, offset, started_at, done_at, pod


def _runs(
    *rows: Row, cuts: dict[tuple[int, str], list[int]] | None = None
) -> list[tuple[int, str, int, int, int, int, int, int]]:
    columns = list(zip(*rows, strict=True))
    batch = pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(columns[0], pa.int32()),
            "offset": pa.array(columns[1], pa.int64()),
            "started_at": pa.array(columns[2], pa.int64()),
            "done_at": pa.array(columns[3], pa.int64()),
            "pod": pa.array(columns[4]),
            "member_id": pa.array(columns[4]),
        }
    )
    given = {owner: np.array(ats, np.int64) for owner, ats in (cuts or {}).items()}
    runs = runs_of(batch, given)
    return [
        tuple(value for name, value in row.items() if name != "member_id")
        for row in runs.to_pylist()
    ]


def test_neighbours_begun_in_order_are_one_run() -> None:
    """Offsets 5 to 7 of one pod become one run with its first and last instants."""
    runs = _runs((0, 5, 10, 13, "a"), (0, 6, 11, 19, "a"), (0, 7, 12, 15, "a"))

    assert runs == [(0, "a", 5, 7, 10, 12, 13, 19)]


def test_interleaved_partitions_are_distinguished() -> None:
    """Rows of two partitions in turn give one run each."""
    runs = _runs((1, 5, 10, 13, "a"), (0, 2, 11, 14, "a"), (1, 6, 12, 15, "a"))

    assert runs == [(0, "a", 2, 2, 11, 11, 14, 14), (1, "a", 5, 6, 10, 12, 13, 15)]


def test_a_hole_a_repeat_and_another_pod_end_a_run() -> None:
    """Whatever does not simply follow begins a new run."""
    assert len(_runs((0, 5, 10, 11, "a"), (0, 7, 12, 13, "a"))) == 2
    assert len(_runs((0, 5, 10, 11, "a"), (0, 5, 12, 13, "a"))) == 2
    assert len(_runs((0, 5, 10, 11, "a"), (0, 6, 12, 13, "b"))) == 2


def test_wrong_order_ends_a_run() -> None:
    """A later offset that began earlier is in a run of its own."""
    runs = _runs((0, 5, 10, 11, "a"), (0, 6, 9, 11, "a"))

    assert [run[2:6] for run in runs] == [(5, 5, 10, 10), (6, 6, 9, 9)]


def test_equal_starts_have_no_order() -> None:
    """Messages begun in the same nanosecond stay in one run."""
    assert len(_runs((0, 5, 10, 11, "a"), (0, 6, 10, 11, "a"))) == 1


def test_a_partition_given_anew_ends_a_run() -> None:
    """Offsets 5 to 8 follow each other, but pod a was given the partition at 10 and again at 12."""
    rows: tuple[Row, ...] = (
        (0, 5, 10, 11, "a"),
        (0, 6, 11, 12, "a"),
        (0, 7, 12, 13, "a"),
        (0, 8, 15, 16, "a"),
    )

    runs = _runs(*rows, cuts={(0, "a"): [10, 12], (0, "b"): [11], (1, "a"): [11]})

    assert [(run[2], run[3]) for run in runs] == [(5, 6), (7, 8)]
