"""Records for the consumer's unit tests."""

from __future__ import annotations

import numpy as np

from lagbench.programs.consumer.work_queues import RecordChunk
from lagbench.shared_with_spark.event import EVENT_DTYPE


def chunk(first_offset: int, count: int, arrived_at: int = 0) -> RecordChunk:
    """Return ``count`` consecutive records; seq is the offset plus 1000."""
    offsets = np.arange(first_offset, first_offset + count, dtype=np.int64)
    events = np.zeros(count, EVENT_DTYPE)
    events["seq"] = offsets + 1000
    events["entity_id"] = offsets * 7
    events["planned_offset_ns"] = offsets * 11
    return RecordChunk(offsets, events, arrived_at)
