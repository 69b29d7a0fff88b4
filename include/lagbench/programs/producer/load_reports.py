"""Count the lateness of events in bins 2 % wide, so a long stream costs no memory."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.measures.evidence.producer_report import fell_behind, lateness_text
from lagbench.core.scenario.offered_load import NS
from lagbench.core.telemetry.records_of_programs import (
    FAILED_RANGES_REPORTED,
    LoadStep,
    ProducerProgress,
    Record,
    StreamFinished,
    StreamStarted,
)
from lagbench.programs.clock_watch import ClockWatch
from lagbench.programs.producer.outbox import Outbox
from lagbench.programs.producer.producer_settings import ProducerSettings

# 10 microseconds to 1000 s; what lies below or above falls into the first or the last bin.
_EDGES_MS = 0.01 * 1.02 ** np.arange(931)


class LatenessCounts:
    """Counts lateness in milliseconds and gives percentiles (the bin's upper edge)."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self._counts = np.zeros(len(_EDGES_MS) + 1, dtype=np.int64)
        self.count = 0
        self.max_ms = 0.0

    def add(self, lateness_ns: npt.NDArray[np.int64]) -> None:
        """Count the lateness of some events."""
        if not len(lateness_ns):
            return
        late_ms = lateness_ns / 1e6
        bins = np.searchsorted(_EDGES_MS, late_ms)
        self._counts += np.bincount(bins, minlength=len(self._counts))
        self.count += len(late_ms)
        self.max_ms = max(self.max_ms, float(late_ms.max()))

    def merge(self, other: LatenessCounts) -> None:
        """Take in what ``other`` has counted."""
        self._counts += other._counts
        self.count += other.count
        self.max_ms = max(self.max_ms, other.max_ms)

    def percentile_ms(self, percent: float) -> float | None:
        """Return the percentile, at most 2 % too high; None when nothing was counted."""
        if self.count == 0:
            return None
        wanted = max(1, int(np.ceil(self.count * percent / 100)))
        found = int(np.searchsorted(np.cumsum(self._counts), wanted))
        edge = float(_EDGES_MS[min(found, len(_EDGES_MS) - 1)])
        return min(edge, self.max_ms)


log = logging.getLogger(__name__)
Sent = TypeVar("Sent", bound=Record)


class Reports:
    """Sends the producer's telemetry and keeps its lateness."""

    def __init__(self, settings: ProducerSettings, outbox: Outbox) -> None:
        """Open the telemetry topic when there is one."""
        self._settings, self._outbox = settings, outbox
        flags = settings.flags
        topics = (flags.telemetry_topic, flags.second_telemetry_topic)
        self._logs = [TelemetryLog(flags.bootstrap_servers, topic) for topic in topics if topic]
        self._clock_watch = ClockWatch(settings.source, self._pass_on)
        self._whole, self._second = LatenessCounts(), LatenessCounts()
        self._started_at = 0
        self._next_progress_ns = NS
        self._steps_left = list(settings.whole_load.steps)

    @property
    def lateness(self) -> LatenessCounts:
        """Return the lateness of the stream so far; the running second is counted at its end."""
        return self._whole

    @property
    def current(self) -> LatenessCounts:
        """Return where this second's lateness is counted."""
        return self._second

    def started(self, started_at: int, partitions: int) -> None:
        """Report planned offset 0."""
        settings, self._started_at = self._settings, started_at
        tail = settings.tail
        log.info(
            "stream of %d events over %.1f s to %s (%d partitions, seed %d)",
            settings.load.total,
            settings.load.duration_seconds,
            settings.flags.topic,
            partitions,
            settings.flags.seed,
        )
        self._send(
            StreamStarted,
            started_at,
            stream_started_at=started_at,
            seed=settings.flags.seed,
            profile=settings.profile_kind,
            planned_total=settings.load.total,
            planned_seconds=settings.load.duration_seconds,
            partitions=partitions,
            tail_rate_per_second=tail.rate_per_second if tail else 0.0,
            tail_most_seconds=tail.most_seconds if tail else 0.0,
        )

    def tick(self, elapsed_ns: int, planned: int) -> None:
        """Report the steps that have been reached, and progress once a second."""
        while self._steps_left and self._steps_left[0].at_ns <= elapsed_ns:
            step = self._steps_left.pop(0)
            log.info("%s: %g/s to %g/s", step.step, step.rate_before, step.rate_after)
            rates = {"rate_before": step.rate_before, "rate_after": step.rate_after}
            self._send(LoadStep, self._started_at + step.at_ns, step=step.step, **rates)
        if elapsed_ns >= self._next_progress_ns:
            self._next_progress_ns = (elapsed_ns // NS + 1) * NS
            self._progress(elapsed_ns, planned)

    def finished(
        self,
        at: int,
        *,
        planned: int,
        problem: str,
        digest: str,
        tail_seconds: float,
        aborted: str = "",
    ) -> StreamFinished:
        """Report the totals after the flush; ``problem`` empty means that nothing went wrong."""
        self._clock_watch.look()
        self._whole.merge(self._second)
        self._second = LatenessCounts()
        p99, largest = self._whole.percentile_ms(99) or 0.0, self._whole.max_ms
        is_paced = not self._settings.flags.flat_out
        is_behind = is_paced and fell_behind(p99, largest)
        reasons = [problem] if problem else []
        if is_behind:
            reasons.append(lateness_text(p99, largest))
        outbox = self._outbox
        record = self._send(
            StreamFinished,
            at,
            planned=planned,
            sent=outbox.sent,
            acked=outbox.acked,
            failed=outbox.failed,
            unknown=outbox.unknown + outbox.waiting,
            lateness_p50_ms=self._whole.percentile_ms(50) or 0.0,
            lateness_p99_ms=p99,
            lateness_max_ms=largest,
            fell_behind=is_behind,
            reason="; ".join(reasons) or "completed",
            stream_sha256=digest,
            tail_sent=max(0, outbox.sent - self._settings.load.total),
            tail_seconds=tail_seconds,
            failed_seqs=outbox.failed_seqs.ranges(most=FAILED_RANGES_REPORTED),
            aborted=aborted,
            # What the client did not even give up in time nobody can name.
            unknown_seqs=None
            if outbox.waiting
            else outbox.unknown_seqs.ranges(most=FAILED_RANGES_REPORTED),
        )
        for telemetry in self._logs:
            telemetry.flush()
        return record

    def summary(self, record: StreamFinished, elapsed_seconds: float, acked_seconds: float) -> None:
        """Print the totals as one line of JSON, for ``make bench`` and people."""
        rounded = ("tail_seconds", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms")
        counts = ("planned", "sent", "acked", "failed", "unknown", "tail_sent")
        line = {
            **{name: getattr(record, name) for name in counts},
            **{name: round(getattr(record, name), 3) for name in rounded},
            "sent_per_second": round(record.sent / max(elapsed_seconds, 1e-9)),
            "acked_per_second": round(record.acked / max(acked_seconds, 1e-9)),
            **{name: getattr(record, name) for name in ("fell_behind", "reason", "stream_sha256")},
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def _progress(self, elapsed_ns: int, planned: int) -> None:
        second, self._second = self._second, LatenessCounts()
        self._whole.merge(second)
        self._clock_watch.look()
        self._send(
            ProducerProgress,
            self._started_at + elapsed_ns,
            planned=planned,
            sent=self._outbox.sent,
            acked=self._outbox.acked,
            failed=self._outbox.failed,
            lateness_p50_ms=second.percentile_ms(50),
            lateness_p99_ms=second.percentile_ms(99),
            lateness_max_ms=second.max_ms if second.count else None,
        )

    def _send(self, kind: type[Sent], at: int, **fields: Any) -> Sent:
        record = kind(at=at, source=self._settings.source, **fields)
        self._pass_on(record)
        return record

    def _pass_on(self, record: Record) -> None:
        for telemetry in self._logs:
            telemetry.send(record)
