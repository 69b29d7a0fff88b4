"""Decoding events from Arrow batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench_spark.errors import UnreadableRun
from bench_spark.transforms.event_rows import _decode_batches
from lagbench.core.event import EVENT_DTYPE, event_values


def _batch(count: int, size: int = 256) -> pa.RecordBatch:
    events = np.zeros(count, EVENT_DTYPE)
    events["seq"] = np.arange(count) + 7
    events["entity_id"] = 1000 - np.arange(count)
    events["planned_offset_ns"] = np.arange(count) * 1_000
    events["producer_id"] = 3
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(np.zeros(count, np.int32)),
            "offset": pa.array(np.arange(count, dtype=np.int64)),
            "logged_at": pa.array(np.full(count, 5, np.int64)),
            "size": pa.array(np.full(count, size, np.int32)),
            "header": pa.array([value[:28] for value in event_values(events)], pa.binary()),
        }
    )


def test_every_field_is_decoded() -> None:
    """The 28 bytes give seq, entity, planned offset and producer."""
    (decoded,) = _decode_batches([_batch(3)])

    assert decoded.column("seq").to_pylist() == [7, 8, 9]
    assert decoded.column("entity_id").to_pylist() == [1000, 999, 998]
    assert decoded.column("planned_offset_ns").to_pylist() == [0, 1_000, 2_000]
    assert decoded.column("producer_id").to_pylist() == [3, 3, 3]


def test_slice_of_a_batch_is_decoded_from_its_start() -> None:
    """A batch that begins in the middle of its buffers keeps its rows."""
    (decoded,) = _decode_batches([_batch(10).slice(4, 3)])

    assert decoded.column("seq").to_pylist() == [11, 12, 13]


def test_other_sizes_are_refused_by_place() -> None:
    """A record that is no event is named with partition and offset."""
    with pytest.raises(UnreadableRun, match="partition 0, offset 0 holds 100 bytes"):
        list(_decode_batches([_batch(2, size=100)]))


def test_tombstone_is_refused() -> None:
    """A record without a value is refused too."""
    batch = _batch(2)
    sizes = pa.array([256, None], pa.int32())
    batch = batch.set_column(batch.schema.get_field_index("size"), "size", sizes)

    with pytest.raises(UnreadableRun, match="offset 1 holds None bytes"):
        list(_decode_batches([batch]))
