"""Compare each message's partition with the one that is planned for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.scenario.partition_plan import PartitionPlan
from lagbench.core.scenario.stream.key_skew import planned_partitions
from lagbench.errors import NotReady

_BATCH_ROWS = 1 << 20
_COLUMNS = ["partition", "entity_id", "planned_offset_ns"]


def misplaced_messages(folder: RunFolder, plan: PartitionPlan) -> int:
    """Return how many messages in the log are in another partition than planned.

    Only a topic that grew has a choice; without a growth the rows are not read.

    :raises NotReady: the table ``events`` cannot be read.
    """
    if not plan.growths:
        return 0
    count = 0
    try:
        for part in sorted(folder.table("events").glob("*.parquet")):
            for batch in pq.ParquetFile(part).iter_batches(_BATCH_ROWS, columns=_COLUMNS):
                rows = pa.Table.from_batches([batch]).drop_null()
                entities = rows["entity_id"].to_numpy().astype(np.uint64)
                planned = planned_partitions(entities, rows["planned_offset_ns"].to_numpy(), plan)
                count += int((planned != rows["partition"].to_numpy()).sum())
    except (OSError, pa.ArrowException) as broken:
        raise NotReady(f"run {folder.run_id}: its messages cannot be read: {broken}") from broken
    return count
