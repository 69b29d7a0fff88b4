"""The base of every telemetry record."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, kw_only=True, tag_field="kind", tag=True):
    """Base of every record: unix nanoseconds at the source's clock, and the source's name."""

    at: int
    source: str


class ClockStepped(Record, tag="clock_stepped"):
    """The source's wall clock moved against its monotonic one by more than a tenth of a second.

    ``step_seconds`` is above 0 for a step forward. Absent from runs of format 1.
    """

    step_seconds: float
