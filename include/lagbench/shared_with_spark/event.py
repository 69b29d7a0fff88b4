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


IDENTITY_HEADER = "lagbench-id"

IDENTITY_BYTES = EVENT_BYTES - PAYLOAD_BYTES

IDENTITY_DTYPE = np.dtype([field for field in EVENT_DTYPE.descr if field[0] != "payload"])

Headers = list[tuple[str, str | bytes | None]]

AnyHeaders = dict[str, str | bytes | None] | Headers | None
"""As the client's types declare what it returns; it returns a list, or None without headers."""


def identity_headers(events: Events, run_id: str) -> list[Headers]:
    """Return the headers of each event of the run, in order."""
    raw, run = events.tobytes(), run_id.encode()
    return [
        [(IDENTITY_HEADER, raw[start : start + IDENTITY_BYTES] + run)]
        for start in range(0, len(raw), EVENT_BYTES)
    ]


def header_pairs(headers: AnyHeaders) -> list[tuple[str, bytes | None]]:
    """Return names and values of a record's headers; there may be none."""
    pairs = headers.items() if isinstance(headers, dict) else headers or ()
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def whole_identity(headers: AnyHeaders) -> bytes | None:
    """Return the value of the first identity header, of whatever run; None: there is none."""
    return next((value for name, value in header_pairs(headers) if name == IDENTITY_HEADER), None)


def identity_of(headers: AnyHeaders, run_id: str) -> bytes | None:
    """Return the 28 bytes of the run's identity; None: the headers do not have it."""
    whole = whole_identity(headers)
    if whole is None or whole[IDENTITY_BYTES:] != run_id.encode():
        return None
    return whole[:IDENTITY_BYTES]


def decode_identities(joined: bytes) -> Events:
    """Return the identities in ``joined``, whole ones of 28 bytes, as events without payload."""
    events: Events = np.frombuffer(joined, dtype=IDENTITY_DTYPE)
    return events
