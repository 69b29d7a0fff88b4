"""Find t2 of the reaction chain: when the autoscaler read the value it acted on, and the source.

The embedded autoscaler (and the bench's own on a cluster) reports every sync and poll. The HPA of a
cluster reports only its status: the recorder sees the first status with a metric above the
threshold a moment after the sync that read it. An HPA scales before it writes its status, in the
same pass; so if it scaled, it had read the metric by then. KEDA at zero replicas reports nothing
about a poll except its scaling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from lagbench.core.clocks import Clock
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas.steps import ReplicaChange
from lagbench.core.telemetry.autoscaler import HpaSync, KedaPoll
from lagbench.core.telemetry.recorder import HpaSample
from lagbench.core.telemetry.records import TelemetryRecord

RulingClock = Literal["hpa_sync", "keda_poll", "unknown"]


@dataclass(frozen=True, slots=True)
class Stamp:
    """An instant on the recorder's clock, and its owner's own stamp if that differs."""

    at: int | None
    precision_seconds: float | None = None
    note: str = ""
    stamped_at: int | None = None

    def on(self, clock: Clock | None) -> Stamp:
        """Return the stamp with the error of ``clock``, whose known offset is subtracted."""
        if self.at is None:
            return self
        if clock is None:
            note = _joined(self.note, "its clock is not bounded")
            return replace(self, precision_seconds=None, note=note)
        shift, error = clock.shift_ns, clock.error_ns / NANOSECONDS
        precision = None if self.precision_seconds is None else self.precision_seconds + error
        moved = f"{clock.name} is {shift / NANOSECONDS:+.3f} s off, subtracted" if shift else ""
        return Stamp(self.at, precision, _joined(self.note, moved), self.at + shift)


def autoscaler_reading(
    records: Sequence[TelemetryRecord],
    crossed: Stamp,
    threshold: float | None,
    clock: RulingClock,
    change: ReplicaChange | None,
) -> tuple[Stamp, str | None]:
    """Return the first reading above the threshold and its clock's owner (None: the recorder)."""
    since_at = None  # one precision before the crossing
    if crossed.at is not None and threshold is not None:
        since_at = crossed.at - round((crossed.precision_seconds or 0) * NANOSECONDS)

    def is_sought(at: int, values: Iterable[float | None]) -> bool:
        if threshold is None or since_at is None or at < since_at:
            return False
        return any(value is not None and value > threshold for value in values)

    kind = KedaPoll if clock == "keda_poll" else HpaSync
    readings = sorted((r for r in records if isinstance(r, kind)), key=lambda record: record.at)
    for reading in readings:
        if is_sought(reading.at, reading.metrics.values()):
            return Stamp(reading.at, 0.0, clock.replace("_", " ")), reading.source
    before = [reading for reading in readings if change is not None and reading.at <= change.at]
    if before:  # the policy reads something else (CPU), which is never above the threshold
        note = "the sync that changed the replicas"
        return Stamp(before[-1].at, 0.0, note), before[-1].source
    if not readings:
        seen = None if clock == "keda_poll" else _shown(records, is_sought, change)
        if seen is not None:
            return seen, None
        if change is not None and change.by in ("hpa", "keda"):
            note = f"not reported: {change.by} reads and scales in one pass, so not after t3"
            return Stamp(change.at, change.precision_seconds, note), None
    return Stamp(None, None, "no reading above the threshold was recorded"), None


def _shown(
    records: Sequence[TelemetryRecord],
    is_sought: Callable[[int, Iterable[float | None]], bool],
    change: ReplicaChange | None,
) -> Stamp | None:
    """Return the first status of an HPA that the recorder saw above the threshold."""
    samples = sorted((r for r in records if isinstance(r, HpaSample)), key=lambda s: (s.name, s.at))
    found = [
        (sample.at, before.at)
        for before, sample in pairwise(samples)
        if before.name == sample.name and is_sought(sample.at, sample.totals.values())
    ]
    if not found:
        return None
    at, before_at = min(found)
    if change is not None and change.by == "hpa" and change.at < at:
        note = "not after t3: the HPA scales, then shows in its status what it had read"
        return Stamp(change.at, change.precision_seconds, note)
    note = "the HPA's status as the recorder saw it first, after the sync that read it"
    return Stamp(at, (at - before_at) / NANOSECONDS, note)


def _joined(first: str, second: str) -> str:
    return f"{first}; {second}" if first and second else first or second
