"""Carry a message's identity in a Kafka header, so that its value stays the user's.

The header has the 28 bytes with which the value of lagbench's own event begins (seq, entity,
planned offset, producer), then the run's id.
"""

from __future__ import annotations

import numpy as np

from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE, PAYLOAD_BYTES, Events

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
