"""Check that the generator produced the planned load.

A run is invalid when the producer fell behind (its own rule, stated in its record), was stopped
before its stream's end, never reported that it finished, or had a delivery rejected or left
unacknowledged. Kafka then took another load than planned, and no measure is meaningful.
``evidence/load_taken.py`` checks whether Kafka took it too late.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures.evidence.gaps import GAP_SECONDS, TelemetryGap
from lagbench.core.measures.evidence.load_taken import most_waiting
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry import (
    LagSample,
    ProducerProgress,
    ReadGap,
    ReplicaSample,
    StreamFinished,
    StreamStarted,
    TelemetryRecord,
)

FELL_BEHIND_P99_MS = 100.0
FELL_BEHIND_MAX_MS = 1_000.0
"""A generator that exceeds either limit fell behind.

The timeline has bins of 100 ms: with 99 % of the events sent within one, each bin shows the load
that was planned. The recorder samples lag once a second: an event later than that would show as
missing load in a sample, and a reaction time measured from the planned step would include up to
that much of the generator's own delay.
"""


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


class Validity(MeasureModel):
    """The validity of a run's load; an invalid run is never judged ``pass``."""

    is_valid: bool
    reasons: tuple[str, ...]  # why it is invalid
    notes: tuple[str, ...]  # what a reader should know; does not invalidate
    generator: Generator
    telemetry_gaps: tuple[TelemetryGap, ...]


def generator(records: Sequence[TelemetryRecord], planned_total: int = 0) -> Generator:
    """Return the producer's last report: its final record, else its last progress.

    ``planned`` is the whole stream (``planned_total`` of the scenario, or of the producer's first
    record), even if the producer was stopped before its end.
    """
    reported = [r.planned_total for r in records if isinstance(r, StreamStarted)]
    whole = max([*reported, planned_total])
    waiting = most_waiting(records)
    progress = [record for record in records if isinstance(record, ProducerProgress)]
    refused = max((record.failed for record in progress), default=0)
    for record in reversed(records):
        if isinstance(record, StreamFinished):
            return Generator(
                planned=max(record.planned, whole),
                sent=record.sent,
                acked=record.acked,
                failed=max(record.failed, refused),
                unknown=record.unknown,
                lateness_p50_ms=record.lateness_p50_ms,
                lateness_p99_ms=record.lateness_p99_ms,
                lateness_max_ms=record.lateness_max_ms,
                fell_behind=record.fell_behind,
                reason=record.reason,
                stream_sha256=record.stream_sha256,
                most_waiting=waiting,
            )
    if not progress:
        return Generator()
    last = progress[-1]
    return Generator(
        planned=max(last.planned, whole),
        sent=last.sent,
        acked=last.acked,
        failed=last.failed,
        most_waiting=waiting,
    )


def telemetry_gaps(
    records: Sequence[TelemetryRecord], *, from_at: int | None, until_at: int | None
) -> tuple[TelemetryGap, ...]:
    """Return the times in which readings failed or the recorder was silent, by start.

    Failed readings of one kind form one gap while at most ``GAP_SECONDS`` apart.
    """
    low = from_at if from_at is not None else -(2**63)
    high = until_at if until_at is not None else 2**63
    inside = [record for record in records if low <= record.at <= high]
    failed: dict[str, list[tuple[int, str]]] = {}
    for record in inside:
        if isinstance(record, ReadGap):
            failed.setdefault(record.what, []).append((record.at, record.reason))
    gaps = [gap for what, readings in failed.items() for gap in _gaps_of(what, readings)]
    seen = [
        record.at for record in inside if isinstance(record, LagSample | ReplicaSample | ReadGap)
    ]
    for left, right in zip(sorted(seen), sorted(seen)[1:], strict=False):
        if right - left > GAP_SECONDS * NANOSECONDS:
            gaps.append(_gap("recorder", left, right, "no record of the recorder"))
    return tuple(sorted(gaps, key=lambda gap: (gap.started_at, gap.what)))


def validity(
    made: Generator | None, gaps: tuple[TelemetryGap, ...], doubts: Sequence[str] = ()
) -> Validity:
    """Return whether the run may be judged, and what a reader should know.

    Without a generator (None) there was no plan to keep: the load is what the log took.

    ``doubts``: further reasons why it was not the planned load, or why no clock measured it.
    """
    reasons = [*([] if made is None else _unkept(made)), *doubts]
    notes = [f"no reading of {gap.what} for {gap.gap_seconds:.1f} s: {gap.reason}" for gap in gaps]
    return Validity(
        is_valid=not reasons,
        reasons=tuple(reasons),
        notes=tuple(notes),
        generator=made or Generator(),
        telemetry_gaps=gaps,
    )


def _unkept(made: Generator) -> list[str]:
    """Return how the producer's own report differs from its plan."""
    if made.fell_behind is None:
        return ["the producer never reported that it finished"]
    reasons = []
    planned, sent, acked = made.planned or 0, made.sent or 0, made.acked or 0
    p99, largest = made.lateness_p99_ms or 0.0, made.lateness_max_ms or 0.0
    if made.fell_behind:
        reasons.append(f"the generator fell behind: {made.reason or 'no reason given'}")
    elif fell_behind(p99, largest):
        reasons.append(f"the generator fell behind: {lateness_text(p99, largest)}")
    elif sent < planned:
        reasons.append(
            f"the generator ended after {sent:,} of {planned:,} planned events: "
            f"{made.reason or 'no reason given'}"
        )
    if acked < sent or made.failed or made.unknown:
        reasons.append(
            f"Kafka acknowledged {acked:,} of {planned:,} planned messages: {made.failed or 0:,}"
            f" were rejected or timed out, and of {made.unknown or 0:,} the outcome is not known"
        )
    return reasons


def fell_behind(p99_ms: float, max_ms: float) -> bool:
    """Return whether events were handed over too late for the load to be the planned one."""
    return p99_ms > FELL_BEHIND_P99_MS or max_ms > FELL_BEHIND_MAX_MS


def lateness_text(p99_ms: float, max_ms: float) -> str:
    """Return the lateness with its limits."""
    return (
        f"lateness p99 {p99_ms:.1f} ms (limit {FELL_BEHIND_P99_MS:g}), max {max_ms:.1f} ms (limit"
        f" {FELL_BEHIND_MAX_MS:g})"
    )


def _gaps_of(what: str, readings: list[tuple[int, str]]) -> list[TelemetryGap]:
    readings = sorted(readings)
    gaps, started_at, last_at, reason = [], readings[0][0], readings[0][0], readings[0][1]
    for at, text in readings[1:]:
        if at - last_at > GAP_SECONDS * NANOSECONDS:
            gaps.append(_gap(what, started_at, last_at, reason))
            started_at, reason = at, text
        last_at = at
    return [*gaps, _gap(what, started_at, last_at, reason)]


def _gap(what: str, started_at: int, ended_at: int, reason: str) -> TelemetryGap:
    return TelemetryGap(
        what=what,
        started_at=started_at,
        ended_at=ended_at,
        gap_seconds=(ended_at - started_at) / NANOSECONDS,
        reason=reason,
    )
