"""A message in another partition than planned is found, once a topic grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.scenario.partition_plan import PartitionPlan
from lagbench.core.scenario.stream.key_skew import planned_partitions
from lagbench.errors import NotReady
from lagbench.results.planned_places import misplaced_messages

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
