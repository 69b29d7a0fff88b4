"""Define the event: 256 bytes, fixed layout, decoded as one numpy array.

Nothing in the value depends on when or where it was made: ``planned_offset_ns`` counts from the
start of the stream (the instant is in the telemetry record ``stream_started``), so the same seed
and profile give a byte-identical stream. The Kafka record's timestamp is the planned instant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

EVENT_BYTES = 256
PAYLOAD_BYTES = 228

EVENT_DTYPE = np.dtype(
    [
        ("seq", "<u8"),  # 0, 1, 2, … per producer, without holes
        ("entity_id", "<u8"),  # also the record's key (8 bytes, big endian)
        ("planned_offset_ns", "<i8"),  # from the start of the stream, in nanoseconds
        ("producer_id", "<u4"),
        ("payload", f"V{PAYLOAD_BYTES}"),  # seeded bytes
    ]
)

Events = npt.NDArray[np.void]


def decode_events(values: bytes | bytearray | memoryview) -> Events:
    """Return the events in ``values``, a concatenation of whole 256-byte values, without a copy.

    :raises ValueError: the length is not a multiple of 256.
    """
    if len(values) % EVENT_BYTES:
        raise ValueError(f"{len(values)} bytes are not a whole number of {EVENT_BYTES}-byte events")
    return np.frombuffer(values, dtype=EVENT_DTYPE)


def seq_of_value(value: bytes) -> int:
    """Return the seq of one event by its value."""
    return int.from_bytes(value[:8], "little")


def event_values(events: Events) -> list[bytes]:
    """Return each event's value as ``bytes`` of 256, in order."""
    raw = events.tobytes()
    return [raw[start : start + EVENT_BYTES] for start in range(0, len(raw), EVENT_BYTES)]


def record_keys(events: Events) -> list[bytes]:
    """Return each event's record key: ``entity_id`` as 8 bytes, big endian."""
    raw = events["entity_id"].astype(">u8").tobytes()
    return [raw[start : start + 8] for start in range(0, len(raw), 8)]


def concatenate_values(values: Sequence[bytes]) -> bytes:
    """Join record values for ``decode_events``."""
    return b"".join(values)
