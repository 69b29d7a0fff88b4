"""Bins by partition from a row per message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.evidence.series import BIN_NS, RateSeries
from lagbench.core.measures.rebalance.partition_work import PartitionWork
from lagbench.errors import NotReady
from lagbench.results.message_tables import NO_SHIFTS, Shifts, read_partition_work

START = 1_000 * BIN_NS
BINS = 50
Rows = list[tuple[int, int, int]]  # partition, offset, bin


def write(folder: RunFolder, name: str, columns: dict[str, object]) -> None:
    """Write one table."""
    folder.table(name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder.table(name) / "part-00000.parquet")


def work(
    root: Path,
    planned: Rows,
    done: Rows,
    *,
    committed: dict[int, int | None] | None = None,
    pods: list[str] | None = None,
    shifts: Shifts = NO_SHIFTS,
) -> PartitionWork | None:
    """Return the work of a folder with these messages; the timeline tells the same.

    The stamps in the tables are ahead by ``shifts``.
    """
    folder = RunFolder.create("messages", root)
    pods = pods or ["a"] * len(done)
    planned_at = [START + place * BIN_NS + shifts.planned_ns for _, _, place in planned]
    done_at = [
        START + place * BIN_NS + 7 + shifts.by_pod.get(pod, 0)
        for (_, _, place), pod in zip(done, pods, strict=True)
    ]
    write(
        folder,
        "events",
        {
            "partition": pa.array([row[0] for row in planned], type=pa.int32()),
            "offset": pa.array([row[1] for row in planned], type=pa.int64()),
            "planned_at": pa.array(planned_at, type=pa.int64()),
            "logged_at": pa.array(planned_at, type=pa.int64()),
        },
    )
    write(
        folder,
        "processed",
        {
            "partition": pa.array([row[0] for row in done], type=pa.int32()),
            "offset": pa.array([row[1] for row in done], type=pa.int64()),
            "started_at": pa.array([at - 3_000_000 for at in done_at], type=pa.int64()),
            "done_at": pa.array(done_at, type=pa.int64()),
            "pod": pods,
        },
    )
    first: dict[tuple[int, int], int] = {}
    for partition, offset, place in done:
        key = (partition, offset)
        first[key] = min(place, first.get(key, place))
    known = {row[:2] for row in planned}
    rate = RateSeries(
        START,
        np.bincount([row[2] for row in planned], minlength=BINS),
        np.bincount([at for key, at in first.items() if key in known], minlength=BINS),
    )
    return read_partition_work(folder, rate, 2, committed or {}, shifts)


def test_messages_are_counted_by_partition_and_bin(tmp_path: Path) -> None:
    """Two in partition 0, one in partition 1; what is planned in bin 3 waits from bin 6 on."""
    planned = [(0, 10, 3), (0, 11, 3), (1, 5, 4)]

    found = work(tmp_path, planned, [(0, 10, 8), (0, 11, 9), (1, 5, 8)])

    assert found is not None
    assert found.done is not None
    assert found.doubt == ""
    assert found.waiting[0, 5:11].tolist() == [0, 2, 2, 2, 1, 0]
    assert found.waiting[1, 6:10].tolist() == [0, 1, 1, 0]
    assert found.message_seconds == pytest.approx(0.003)


def test_stamps_are_moved_to_the_recorders_clock(tmp_path: Path) -> None:
    """The producer is 3 s ahead, pod b half a second behind: the bins are those of one clock."""
    planned = [(0, 0, 3), (0, 1, 4), (1, 0, 5)]
    done, pods = [(0, 0, 12), (0, 1, 13), (1, 0, 14)], ["a", "b", "b"]
    shifts = Shifts(planned_ns=30 * BIN_NS, by_pod={"b": -5 * BIN_NS, "producer": 30 * BIN_NS})

    found = work(tmp_path / "several", planned, done, pods=pods, shifts=shifts)
    expected = work(tmp_path / "one", planned, done, pods=pods)

    assert found is not None
    assert expected is not None
    assert found.doubt == expected.doubt == ""
    assert np.array_equal(found.waiting, expected.waiting)
    assert found.done is not None
    assert expected.done is not None
    assert np.array_equal(found.done, expected.done)
    assert found.message_seconds == expected.message_seconds
    assert found.pod_rates is not None
    assert found.pod_rates.done[:, :2].tolist() == [[0, 1], [0, 2]]


def test_a_message_done_twice_counts_once(tmp_path: Path) -> None:
    """The earlier of both is its end, whichever row comes first."""
    found = work(tmp_path, [(0, 0, 1)], [(0, 0, 20), (0, 0, 4)], pods=["b", "a"])

    assert found is not None
    assert found.done is not None
    assert np.flatnonzero(found.done[0]).tolist() == [4]
    assert found.doubt == ""


def test_a_lost_message_waits_for_nobody(tmp_path: Path) -> None:
    """Offset 0 is below the commit and was never done; offset 2 is above it and waits."""
    planned = [(0, 0, 1), (0, 1, 1), (0, 2, 1)]

    found = work(tmp_path, planned, [(0, 1, 5)], committed={0: 2})

    assert found is not None
    assert found.lost[1] == 1
    assert found.waiting[0, -1] == 1


def test_a_processing_of_no_message_is_left_out(tmp_path: Path) -> None:
    """The log has no such offset, or no such partition."""
    found = work(tmp_path, [(0, 5, 1)], [(0, 5, 4), (0, 4, 4), (0, 99, 4), (7, 0, 4)])

    assert found is not None
    assert found.done is not None
    assert found.done.sum() == 1


def test_records_without_a_message_are_left_out(tmp_path: Path) -> None:
    """An output whose consumer dropped the header names no message: nothing is known to be done."""
    work(tmp_path, [(0, 10, 3)], [(0, 10, 3)])
    folder = RunFolder.create("messages", tmp_path)
    nothing = {"partition": pa.int32(), "offset": pa.int64(), "pod": pa.string()}
    nothing |= {"started_at": pa.int64(), "done_at": pa.int64()}
    write(folder, "processed", {name: pa.nulls(4, kind) for name, kind in nothing.items()})
    rate = RateSeries(START, np.ones(BINS, dtype=np.int64), np.zeros(BINS, dtype=np.int64))

    found = read_partition_work(folder, rate, 1, {0: 11})

    assert found is not None
    assert int(found.done.sum()) == 0
    assert int(found.lost.sum()) == 1


def test_what_pods_did_is_counted_by_second(tmp_path: Path) -> None:
    """Pod b did two in second 1, pod a one in second 0."""
    planned = [(0, offset, 1) for offset in range(3)]

    found = work(tmp_path, planned, [(0, 0, 4), (0, 1, 12), (0, 2, 15)], pods=["a", "b", "b"])

    assert found is not None
    assert found.pod_rates is not None
    assert found.pod_rates.pods == ("a", "b")
    assert found.pod_rates.done[:, :2].tolist() == [[1, 0], [0, 2]]


def test_a_partition_that_came_later_is_counted(tmp_path: Path) -> None:
    """The scenario asked for two, the log has three."""
    found = work(tmp_path, [(0, 0, 1), (2, 0, 20)], [(0, 0, 4), (2, 0, 24)])

    assert found is not None
    assert found.waiting.shape == (3, BINS)


def test_without_a_table_there_is_nothing(tmp_path: Path) -> None:
    """The caller takes the samples of the lag."""
    folder = RunFolder.create("empty", tmp_path)
    rate = RateSeries(START, np.ones(9, dtype=np.int64), np.ones(9, dtype=np.int64))

    assert read_partition_work(folder, rate, 2, {}) is None


def test_a_broken_table_is_not_ready(tmp_path: Path) -> None:
    """A half written file is named, not taken for an absent table."""
    work(tmp_path, [(0, 0, 1)], [(0, 0, 4)])
    folder = RunFolder.create("messages", tmp_path)
    (folder.table("processed") / "part-00000.parquet").write_bytes(b"PAR1")
    rate = RateSeries(START, np.ones(9, dtype=np.int64), np.ones(9, dtype=np.int64))

    with pytest.raises(NotReady, match="cannot be read"):
        read_partition_work(folder, rate, 2, {})
