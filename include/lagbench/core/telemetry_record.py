"""The base of every telemetry record."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, kw_only=True, tag_field="kind", tag=True):
    """Base of every record: unix nanoseconds at the source's clock, and the source's name."""

    at: int
    source: str
