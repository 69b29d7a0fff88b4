"""The table ``timeline_by_partition`` of the simulated run."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from tests.fakes.run_folder_builder import simulated_spike

BIN_NS = 100_000_000
MESSAGE_SECONDS = 0.002


def write_by_partition(folder: RunFolder) -> None:
    """Write the table as Spark would, and what a message costs."""
    out = simulated_spike()
    offered, partitions = np.array(out.offered), out.story.partitions
    bins = np.tile(np.arange(len(offered))[:, None], (1, partitions))
    columns = {
        "partition": np.tile(np.arange(partitions), len(offered)),
        "at": out.epoch + bins.ravel() * BIN_NS,
        "offered": offered.ravel(),
        "processed": out.done_by_partition.ravel(),
        "lost": np.zeros(offered.size, np.int64),
    }
    table = folder.table("timeline_by_partition")
    table.mkdir(parents=True)
    pq.write_table(pa.table(columns), table / "part-00000.parquet")
    accounting = folder.read_json(folder.accounting)
    folder.write_json(folder.accounting, {**accounting, "message_seconds": MESSAGE_SECONDS})
