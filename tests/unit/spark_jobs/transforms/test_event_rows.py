"""Decoding events from Arrow batches."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE, event_values
from lagbench_spark import schemas
from lagbench_spark.transforms.event_rows import decode_events, planned_at


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
            "header": pa.array(
                [value[:28] if size == EVENT_BYTES else None for value in event_values(events)],
                pa.binary(),
            ),
        }
    )


def test_every_field_is_decoded() -> None:
    """The 28 bytes give seq, entity, planned offset and producer."""
    (decoded,) = decode_events([_batch(3)], None)

    assert decoded.column("seq").to_pylist() == [7, 8, 9]
    assert decoded.column("entity_id").to_pylist() == [1000, 999, 998]
    assert decoded.column("planned_offset_ns").to_pylist() == [0, 1_000, 2_000]
    assert decoded.column("producer_id").to_pylist() == [3, 3, 3]


def test_slice_of_a_batch_is_decoded_from_its_start() -> None:
    """A batch that begins in the middle of its buffers keeps its rows."""
    (decoded,) = decode_events([_batch(10).slice(4, 3)], None)

    assert decoded.column("seq").to_pylist() == [11, 12, 13]


def test_other_sizes_keep_their_place_and_say_nothing_else() -> None:
    """A value of 9 bytes, a tombstone and 300 bytes between two events: the job continues."""
    batch = _batch(5)
    headers = batch.column("header").to_pylist()
    headers[1:4] = [None, None, None]  # as ``event_headers`` gives them
    sizes = pa.array([256, 9, None, 300, 256], pa.int32())
    for name, values in (("size", sizes), ("header", pa.array(headers, pa.binary()))):
        batch = batch.set_column(batch.schema.get_field_index(name), name, values)

    (decoded,) = decode_events([batch], None)

    assert decoded.column("offset").to_pylist() == [0, 1, 2, 3, 4]
    assert decoded.column("size_bytes").to_pylist() == [256, 9, None, 300, 256]
    for name in ("seq", "entity_id", "planned_offset_ns", "producer_id"):
        known = [value is not None for value in decoded.column(name).to_pylist()]
        assert known == [True, False, False, False, True]
    assert decoded.column("seq").to_pylist() == [7, None, None, None, 11]


def test_a_batch_of_strangers_alone_has_no_event() -> None:
    """Not one value has the size of an event: places and sizes are all that is known."""
    (decoded,) = decode_events([_batch(2, size=100)], None)

    assert decoded.column("seq").to_pylist() == [None, None]
    assert decoded.column("size_bytes").to_pylist() == [100, 100]


def test_planned_instants_count_from_the_start() -> None:
    """The start is added; without it no instant is known; null stays null."""
    offsets = pa.array([0, 5, None], pa.int64())

    assert planned_at(offsets, 100).to_pylist() == [100, 105, None]
    assert planned_at(offsets, None).to_pylist() == [None, None, None]


def test_a_planned_instant_out_of_range_is_unknown() -> None:
    """The offset of a foreign record may be any number: a sum that wraps is no instant."""
    most, least = 2**63 - 1, -(2**63)
    offsets = pa.array([most, most - 100, least, -1], pa.int64())

    assert planned_at(offsets, 100).to_pylist() == [None, most, least + 100, 99]
    assert planned_at(offsets, -100).to_pylist() == [most - 100, most - 200, None, -101]


def test_events_have_the_columns_of_their_table() -> None:
    """Names and order are those of the schema."""
    (decoded,) = decode_events([_batch(2)], 7)

    assert decoded.schema.names == schemas.EVENTS.names
    assert decoded.column("planned_at").to_pylist() == [7, 1_007]
