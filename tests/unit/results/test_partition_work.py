"""Waiting and finished messages by partition, from what the accounting wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.partition_work import PartitionWork
from lagbench.core.scenario.event_stream import planned_partitions
from lagbench.core.scenario.scenario import PartitionPlan
from lagbench.errors import NotReady
from lagbench.results.read_run import misplaced_messages
from lagbench.results.run_tables import read_partition_work

START = 1_000 * BIN_NS

BINS = 50

RATE = RateSeries(START, np.ones(BINS, dtype=np.int64), np.ones(BINS, dtype=np.int64))

Counts = tuple[int, int, int, int, int]  # partition, bin, offered, processed, lost


def write(folder: RunFolder, name: str, columns: dict[str, object]) -> None:
    """Write one table."""
    folder.table(name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder.table(name) / "part-00000.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a run folder without tables."""
    return RunFolder.create("messages", tmp_path)


def work(folder: RunFolder, *rows: Counts, pods: tuple[tuple[str, int], ...] = ()) -> PartitionWork:
    """Return the work of two partitions; ``pods`` finished a message each, in these bins."""
    partition, place, offered, processed, lost = zip(*rows, strict=True)
    write(
        folder,
        "timeline_by_partition",
        {
            "partition": pa.array(partition, pa.int32()),
            "at": [START + bin_ * BIN_NS for bin_ in place],
            "offered": offered,
            "processed": processed,
            "lost": lost,
        },
    )
    ats = [START + bin_ * BIN_NS for _, bin_ in pods]
    columns = {
        "at": pa.array(ats, pa.int64()),
        "pod": pa.array([pod for pod, _ in pods], pa.string()),
        "processed": pa.array([1] * len(pods), pa.int64()),
    }
    write(folder, "timeline_by_pod", columns)
    found = read_partition_work(folder, RATE, 2, message_seconds=0.003)
    assert found is not None
    return found


def test_messages_wait_by_partition_and_bin(folder: RunFolder) -> None:
    """Two in partition 0, one in partition 1; what is planned in bin 3 waits from bin 6 on."""
    found = work(
        folder, (0, 3, 2, 0, 0), (0, 8, 0, 1, 0), (0, 9, 0, 1, 0), (1, 4, 1, 0, 0), (1, 8, 0, 1, 0)
    )

    assert found.waiting[0, 5:11].tolist() == [0, 2, 2, 2, 1, 0]
    assert found.waiting[1, 6:10].tolist() == [0, 1, 1, 0]
    assert found.message_seconds == 0.003


def test_a_lost_message_waits_for_nobody(folder: RunFolder) -> None:
    """Of three one is lost, one done, one waits."""
    found = work(folder, (0, 1, 3, 0, 1), (0, 5, 0, 1, 0))

    assert found.lost[1] == 1
    assert found.waiting[0, -1] == 1


def test_what_pods_did_is_counted_by_second(folder: RunFolder) -> None:
    """Pod b did two in second 1, pod a one in second 0."""
    found = work(folder, (0, 1, 3, 3, 0), pods=(("a", 4), ("b", 12), ("b", 15)))

    assert found.pod_rates is not None
    assert found.pod_rates.pods == ("a", "b")
    assert found.pod_rates.done[:, :2].tolist() == [[1, 0], [0, 2]]


def test_a_partition_that_came_later_is_counted(folder: RunFolder) -> None:
    """The scenario asked for two, the log has three."""
    assert work(folder, (0, 0, 1, 0, 0), (2, 20, 1, 0, 0)).waiting.shape == (3, BINS)


def test_bins_outside_of_the_rate_count_at_its_edge(folder: RunFolder) -> None:
    """The rate ends with the last record: no message is left out."""
    found = work(folder, (0, -3, 1, 0, 0), (0, BINS + 7, 0, 1, 0))

    assert found.done is not None
    assert found.done[0, -1] == 1
    assert found.arrivals.sum() == 1


def test_without_the_table_there_is_nothing(folder: RunFolder) -> None:
    """The caller takes the samples of the lag."""
    assert read_partition_work(folder, RATE, 2, message_seconds=None) is None


def test_a_broken_table_is_not_ready(folder: RunFolder) -> None:
    """A half written file is named, not taken for an absent table."""
    work(folder, (0, 0, 1, 1, 0))
    (folder.table("timeline_by_partition") / "part-00000.parquet").write_bytes(b"PAR1")

    with pytest.raises(NotReady, match="cannot be read"):
        read_partition_work(folder, RATE, 2, message_seconds=None)


PLAN = PartitionPlan(6, ((2.0, 12),))


def written(root: Path, partitions: np.ndarray) -> RunFolder:
    """Return a run of 4 s, one message in 10 ms; the last record is no event."""
    folder = RunFolder(root)
    folder.table("events").mkdir(parents=True)
    rows = {
        "partition": np.append(partitions, 0).astype(np.int32),
        "entity_id": pa.array([*range(400), None], pa.int64()),
        "planned_offset_ns": pa.array([*(np.arange(400) * 10_000_000).tolist(), None], pa.int64()),
    }
    pq.write_table(pa.table(rows), folder.table("events") / "part-0.parquet")
    return folder


def planned() -> np.ndarray:
    """Return the planned partition of each message."""
    ids, offsets = np.arange(400, dtype=np.uint64), np.arange(400, dtype=np.int64) * 10_000_000
    return planned_partitions(ids, offsets, PLAN)


def test_each_message_is_compared_with_its_plan(tmp_path: Path) -> None:
    """As planned there is none; two that went by the old count are two."""
    right = planned()
    assert misplaced_messages(written(tmp_path / "right", right), PLAN) == 0

    moved = np.flatnonzero(right >= 6)[:2]
    right[moved] -= 6

    assert misplaced_messages(written(tmp_path / "wrong", right), PLAN) == 2


def test_without_a_growth_nothing_is_read(tmp_path: Path) -> None:
    """A topic of one size has one place for each key, and may be large."""
    folder = RunFolder(tmp_path)

    assert misplaced_messages(folder, PartitionPlan(6)) == 0


def test_a_broken_table_is_reported(tmp_path: Path) -> None:
    """What cannot be read proves nothing."""
    folder = written(tmp_path, planned())
    (folder.table("events") / "part-1.parquet").write_text("no parquet")

    with pytest.raises(NotReady):
        misplaced_messages(folder, PLAN)
