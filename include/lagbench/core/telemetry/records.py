"""Read and write the telemetry records of a run, typed and tagged by ``kind``.

Every record has ``at`` (unix nanoseconds at the source's clock) and ``source`` (pod or component).
They travel as JSON, one per Kafka message. A reading that failed is a ``ReadGap``, never a zero.
The records of each source have a file of their own.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import msgspec

import lagbench.core.telemetry.records_of_recorder  # noqa: F401 - defines the recorder's kinds
from lagbench.core.telemetry.records_of_programs import Record

TelemetryRecord = Record
"""A record of any kind; each kind is a class derived from it."""
_encoder = msgspec.json.Encoder()
_kinds: Any = reduce(or_, Record.__subclasses__())
_decoder: msgspec.json.Decoder[TelemetryRecord] = msgspec.json.Decoder(_kinds)


def encode_record(record: Record) -> bytes:
    """Return the record as JSON."""
    return _encoder.encode(record)


def decode_record(data: bytes | str) -> TelemetryRecord:
    """Return the record in ``data``.

    :raises msgspec.ValidationError: it is not a known record.
    """
    return _decoder.decode(data)
