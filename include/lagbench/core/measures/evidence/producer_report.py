"""Read what the producer reported of its stream: how much, how late, and what waited.

Messages that the producer has handed to its client and that Kafka has not acknowledged wait in the
client and are not part of any lag. The producer reports their number once a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.scenario.offered_load import OfferedLoad, Spike
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    ProducerProgress,
    StreamFinished,
    StreamStarted,
)

FELL_BEHIND_P99_MS = 100.0
FELL_BEHIND_MAX_MS = 1_000.0
"""A generator that exceeds either limit fell behind.

The timeline has bins of 100 ms: with 99 % of the events sent within one, each bin shows the load
that was planned. The recorder samples lag once a second: an event later than that would show as
missing load in a sample, and a reaction time measured from the planned step would include up to
that much of the generator's own delay.
"""
FEWEST_WAITING = 1000
"""Below this, batches in flight are not a backlog."""
WAITING_SECONDS = 1.0


class Generator(MeasureModel):
    """The producer's report; lateness is sent minus planned instant."""

    planned: int | None = None
    sent: int | None = None
    acked: int | None = None
    failed: int | None = None
    unknown: int | None = None
    lateness_p50_ms: float | None = None
    lateness_p99_ms: float | None = None
    lateness_max_ms: float | None = None
    fell_behind: bool | None = None
    reason: str = ""
    stream_sha256: str | None = None
    most_waiting: int | None = None  # most messages sent and not yet acknowledged


def generator(records: Sequence[TelemetryRecord], planned_total: int = 0) -> Generator:
    """Return the producer's last report: its final record, else its last progress.

    ``planned`` is the whole stream (``planned_total`` of the scenario, or of the producer's first
    record), even if the producer was stopped before its end.
    """
    reported = [r.planned_total for r in records if isinstance(r, StreamStarted)]
    progress = [record for record in records if isinstance(record, ProducerProgress)]
    finished = [record for record in records if isinstance(record, StreamFinished)]
    if not finished and not progress:
        return Generator()
    last = finished[-1] if finished else progress[-1]
    found = Generator(
        planned=max(last.planned, *reported, planned_total),
        sent=last.sent,
        acked=last.acked,
        failed=last.failed,
        most_waiting=max((r.sent - r.acked - r.failed for r in progress), default=None),
    )
    if not isinstance(last, StreamFinished):
        return found
    refused = max((record.failed for record in progress), default=0)
    of_the_end = ("unknown", "fell_behind", "reason", "stream_sha256")
    lateness = ("lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms")
    update = {name: getattr(last, name) for name in (*of_the_end, *lateness)}
    return found.model_copy(update={**update, "failed": max(last.failed, refused)})


def fell_behind(p99_ms: float, max_ms: float) -> bool:
    """Return whether events were handed over too late for the load to be the planned one."""
    return p99_ms > FELL_BEHIND_P99_MS or max_ms > FELL_BEHIND_MAX_MS


def lateness_text(p99_ms: float, max_ms: float) -> str:
    """Return the lateness with its limits."""
    return (
        f"lateness p99 {p99_ms:.1f} ms (limit {FELL_BEHIND_P99_MS:g}), max {max_ms:.1f} ms (limit"
        f" {FELL_BEHIND_MAX_MS:g})"
    )


@dataclass(frozen=True, slots=True)
class HeldBack:
    """More than ``allowed`` messages waited in the client at ``at``.

    The time around it reaches from the previous report to the next one.
    """

    at: int
    waiting: int
    allowed: float
    started_at: int
    ended_at: int


def held_back(
    records: Sequence[TelemetryRecord], load: OfferedLoad, stream_started_at: int | None
) -> tuple[HeldBack, ...]:
    """Return each report of the producer that shows more waiting messages than allowed."""
    if stream_started_at is None:
        return ()
    reported = sorted((r for r in records if isinstance(r, ProducerProgress)), key=lambda r: r.at)
    tail = max((r.tail_rate_per_second for r in records if isinstance(r, StreamStarted)), default=0)
    found = []
    for index, report in enumerate(reported):
        allowed = may_wait(load, (report.at - stream_started_at) / NANOSECONDS, tail)
        waiting = max(report.planned, report.sent) - report.acked - report.failed
        if waiting > allowed:
            before = reported[max(0, index - 1)].at
            after = reported[min(len(reported) - 1, index + 1)].at
            found.append(HeldBack(report.at, waiting, allowed, before, after))
    return tuple(found)


def may_wait(load: OfferedLoad, second: float, tail_rate: float = 0.0) -> float:
    """Return the messages of the second that ends at ``second``: that number is not a backlog."""
    starts = [part.start_seconds for part in load.segments]
    rates = [*(part.rate_per_second for part in load.segments), tail_rate]
    spans = zip(
        rates,
        [*starts, load.duration_seconds],
        [*starts[1:], load.duration_seconds, float("inf")],
        strict=True,
    )
    inside = (
        rate for rate, start, end in spans if start <= second and end > second - WAITING_SECONDS
    )
    return max(FEWEST_WAITING, WAITING_SECONDS * max(inside, default=rates[0]))


class SpikeWindow(MeasureModel):
    """A spike of the load, from its planned start to its planned end."""

    started_at: int
    ended_at: int
    rate_before_per_second: float
    rate_peak_per_second: float


class LoadWindow(MeasureModel):
    """Planned load changes as instants; a sawtooth has many spikes, a steady stream none.

    ``spikes`` counts the planned spikes; their instants are None without a known stream start.
    """

    stream_started_at: int | None
    first_spike_started_at: int | None
    last_spike_ended_at: int | None
    spikes: int
    stream_ended_at: int | None
    base_rate_per_second: float | None
    spike_rate_per_second: float | None
    planned_until_at: int | None = None  # the end of the planned window, without the tail
    spike_windows: tuple[SpikeWindow, ...] = ()

    @property
    def origin_at(self) -> int | None:
        """The first spike, else the stream's start: instants are named in seconds after it."""
        first = self.first_spike_started_at
        return self.stream_started_at if first is None else first


def load_window(
    records: Sequence[TelemetryRecord],
    load: OfferedLoad,
    spikes: Sequence[Spike],
    *,
    recorded_start_at: int | None = None,
) -> LoadWindow:
    """Return the window of the stream and of its spikes, as the scenario plans them.

    The stream starts as the producer reports, else at ``recorded_start_at``. It ends with the
    producer's final record, else as planned.
    """
    started = [r.stream_started_at for r in records if isinstance(r, StreamStarted)]
    start = min(started, default=recorded_start_at)
    planned_until_at = None if start is None else start + load.duration_ns
    finished = [r.at for r in records if isinstance(r, StreamFinished)]
    windows = () if start is None else tuple(_window(spike, start) for spike in spikes)
    return LoadWindow(
        stream_started_at=start,
        first_spike_started_at=windows[0].started_at if windows else None,
        last_spike_ended_at=windows[-1].ended_at if windows else None,
        spikes=len(spikes),
        stream_ended_at=max(finished, default=planned_until_at),
        base_rate_per_second=spikes[0].rate_before if spikes else None,
        spike_rate_per_second=spikes[0].rate_peak if spikes else None,
        planned_until_at=planned_until_at,
        spike_windows=windows,
    )


def _window(spike: Spike, start: int) -> SpikeWindow:
    return SpikeWindow(
        started_at=start + round(spike.start_seconds * NANOSECONDS),
        ended_at=start + round(spike.end_seconds * NANOSECONDS),
        rate_before_per_second=spike.rate_before,
        rate_peak_per_second=spike.rate_peak,
    )


class SeqRanges:
    """Collect seqs in any order; 8 bytes each, so a rejected stream of 10 million costs 80 MB."""

    def __init__(self) -> None:
        """Start with none."""
        self._seqs = array("Q")

    @property
    def count(self) -> int:
        """Return how many were added."""
        return len(self._seqs)

    def add(self, seq: int) -> None:
        """Add one."""
        self._seqs.append(seq)

    def ranges(self, *, most: int) -> list[tuple[int, int]] | None:
        """Return the seqs as ranges [first, last], ascending; None if more than ``most``."""
        if not self._seqs:
            return []
        seqs = np.unique(np.frombuffer(self._seqs, dtype=np.uint64))
        ends = np.flatnonzero(np.diff(seqs) > 1)
        if len(ends) >= most:
            return None
        first = seqs[np.concatenate([[0], ends + 1])]
        last = seqs[np.concatenate([ends, [len(seqs) - 1]])]
        return list(zip(first.tolist(), last.tolist(), strict=True))
