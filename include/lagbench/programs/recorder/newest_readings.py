"""The newest record of each kind, and which of them are too old to be shown."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, get_args

from lagbench.core.measures.evidence.lag_readings import lag_series
from lagbench.core.telemetry.records_of_programs import (
    ConsumerProgress,
    LoadStep,
    Phase,
    PodStarted,
    PodStopped,
    Record,
    StreamFinished,
)
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    LagSample,
    ReadGap,
    ScaledObjectSample,
    UsageSample,
    What,
)

Kind = TypeVar("Kind", bound=Record)

# Beyond two intervals a reading is missing: then the last good one says nothing of now.
_INTERVALS_SHOWN = 2.5

_SHORTEST_SHOWN_SECONDS = 2.5

# Pods and producer report once a second, by Kafka and by clocks of their own.
_REPORT_SHOWN_SECONDS = 10.0


class NewestReadings:
    """Takes records from any thread; what was not renewed in time is missing, never zero."""

    def __init__(self, *, interval_seconds: float) -> None:
        """Expect the recorder's own samples every ``interval_seconds``."""
        shown_seconds = max(_INTERVALS_SHOWN * interval_seconds, _SHORTEST_SHOWN_SECONDS)
        self._sample_shown_ns = round(shown_seconds * 1e9)
        self._report_shown_ns = round(_REPORT_SHOWN_SECONDS * 1e9)
        self._newest: dict[tuple[type[Record], str], Record] = {}
        self._phases: dict[str, Phase] = {}
        self._gaps: Counter[str] = Counter(dict.fromkeys(get_args(What), 0))
        self._lock = threading.Lock()

    def take(self, record: Record) -> None:
        """Keep ``record`` until a newer one comes, or its subject has ended."""
        with self._lock:
            if isinstance(record, ReadGap):
                self._gaps[record.what] += 1
            elif isinstance(record, Phase) and record.state == "started":
                self._phases[record.name] = record
            elif isinstance(record, Phase):
                self._phases.pop(record.name, None)
            elif isinstance(record, StreamFinished):
                self._newest.pop((LoadStep, ""), None)  # the planned rate has ended
            elif isinstance(record, PodStopped):
                for kind in (ConsumerProgress, PodStarted):
                    self._newest.pop((kind, record.source), None)
            else:
                place = (type(record), _place(record))
                before = self._newest.get(place)
                if before is None or record.at >= before.at:  # history is read meanwhile
                    self._newest[place] = record

    def samples(self, kind: type[Kind], *, now: int) -> list[Kind]:
        """Return the recorder's own samples of a kind that are still true at ``now`` (unix ns)."""
        return self._newer_than(kind, now - self._sample_shown_ns)

    def reports(self, kind: type[Kind], *, now: int) -> list[Kind]:
        """Return what others reported of a kind and renew every second."""
        return self._newer_than(kind, now - self._report_shown_ns)

    def facts(self, kind: type[Kind]) -> list[Kind]:
        """Return the readings that hold until the next report."""
        return self._newer_than(kind, 0)

    def phases(self) -> list[Phase]:
        """Return the phases in progress."""
        with self._lock:
            return list(self._phases.values())

    def gaps(self) -> Mapping[str, int]:
        """Return how many readings of each sort failed."""
        with self._lock:
            return dict(self._gaps)

    def _newer_than(self, kind: type[Kind], limit_at: int) -> list[Kind]:
        with self._lock:
            records = list(self._newest.values())
        return [found for found in records if isinstance(found, kind) and found.at >= limit_at]


def _place(record: Record) -> str:
    """Return which of several records of a kind stand side by side."""
    match record:
        case HpaSample() | ScaledObjectSample():
            return record.name
        case UsageSample():
            return record.component
        case ConsumerProgress() | PodStarted():
            return record.source
    return ""


@dataclass(frozen=True, slots=True)
class ExposedLag:
    """Records of lag in total (None while a partition's is unknown) and by partition."""

    total: float | None
    by_partition: tuple[tuple[int, float | None], ...]


def exposed_lag(sample: LagSample) -> ExposedLag | None:
    """Return the lag of a sample; None when it has no partition."""
    if not sample.partitions:
        return None
    partitions, ends, committed = zip(*sample.partitions, strict=True)
    series = lag_series([sample.at] * len(partitions), partitions, ends, committed)
    each = zip(series.partitions.tolist(), series.by_partition[0], strict=True)
    return ExposedLag(
        _known(series.total[0]), tuple((partition, _known(lag)) for partition, lag in each)
    )


def _known(lag: float) -> float | None:
    return None if math.isnan(lag) else float(lag)
