"""When the load changed, and whether the generator kept its promise.

A run is invalid when the producer fell behind (its own rule, stated in its record), was stopped
before its stream's end, or never said that it finished: then the offered load is not the planned
one and no measure means what it says.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures import NANOSECONDS, Generator, LoadWindow, TelemetryGap, Validity
from lagbench.core.telemetry import (
    LagSample,
    LoadStep,
    ProducerProgress,
    ReadGap,
    ReplicaSample,
    StreamFinished,
    StreamStarted,
    TelemetryRecord,
)

SILENCE_SECONDS = 3.0
"""The recorder samples once a second: three missing seconds are a gap."""


def load_window(records: Sequence[TelemetryRecord]) -> LoadWindow:
    """Return the stretch of the stream and of its spikes; a steady stream has no spike."""
    started = [r for r in records if isinstance(r, StreamStarted)]
    finished = [r for r in records if isinstance(r, StreamFinished)]
    steps = sorted((r for r in records if isinstance(r, LoadStep)), key=lambda step: step.at)
    starts = [step for step in steps if step.step == "spike_start"]
    ends = [step for step in steps if step.step == "spike_end"]
    ended_at = finished[-1].at if finished else None
    if ended_at is None and started:
        ended_at = started[0].stream_started_at + round(started[0].planned_seconds * NANOSECONDS)
    return LoadWindow(
        stream_started_at=started[0].stream_started_at if started else None,
        first_spike_started_at=starts[0].at if starts else None,
        last_spike_ended_at=ends[-1].at if ends else None,
        spikes=len(starts),
        stream_ended_at=ended_at,
        base_rate_per_second=starts[0].rate_before if starts else None,
        spike_rate_per_second=starts[0].rate_after if starts else None,
    )


def generator(records: Sequence[TelemetryRecord]) -> Generator:
    """Return what the producer said last: its final record, else its last progress.

    ``planned`` is the whole stream, also of a producer that was stopped before its end.
    """
    whole = max((r.planned_total for r in records if isinstance(r, StreamStarted)), default=0)
    for record in reversed(records):
        if isinstance(record, StreamFinished):
            return Generator(
                planned=max(record.planned, whole),
                sent=record.sent,
                acked=record.acked,
                failed=record.failed,
                unknown=record.unknown,
                lateness_p50_ms=record.lateness_p50_ms,
                lateness_p99_ms=record.lateness_p99_ms,
                lateness_max_ms=record.lateness_max_ms,
                fell_behind=record.fell_behind,
                reason=record.reason,
                stream_sha256=record.stream_sha256,
            )
    progress = [record for record in records if isinstance(record, ProducerProgress)]
    if not progress:
        return Generator()
    last = progress[-1]
    return Generator(planned=last.planned, sent=last.sent, acked=last.acked, failed=last.failed)


def telemetry_gaps(
    records: Sequence[TelemetryRecord], *, from_at: int | None, until_at: int | None
) -> tuple[TelemetryGap, ...]:
    """Return stretches in which readings failed or the recorder was silent, by start.

    Failed readings of one kind belong together while less than three seconds apart.
    """
    low = from_at if from_at is not None else -(2**63)
    high = until_at if until_at is not None else 2**63
    inside = [record for record in records if low <= record.at <= high]
    failed: dict[str, list[tuple[int, str]]] = {}
    for record in inside:
        if isinstance(record, ReadGap):
            failed.setdefault(record.what, []).append((record.at, record.reason))
    gaps = [gap for what, readings in failed.items() for gap in _stretches(what, readings)]
    seen = [
        record.at for record in inside if isinstance(record, LagSample | ReplicaSample | ReadGap)
    ]
    for left, right in zip(sorted(seen), sorted(seen)[1:], strict=False):
        if right - left > SILENCE_SECONDS * NANOSECONDS:
            gaps.append(_gap("recorder", left, right, "no record of the recorder"))
    return tuple(sorted(gaps, key=lambda gap: (gap.started_at, gap.what)))


def validity(made: Generator, gaps: tuple[TelemetryGap, ...]) -> Validity:
    """Return whether the run may be judged, and what a reader should know."""
    reasons: list[str] = []
    if made.fell_behind is None:
        reasons.append("the producer never reported that it finished")
    elif made.fell_behind:
        reasons.append(f"the generator fell behind: {made.reason or 'no reason given'}")
    elif made.planned is not None and made.sent is not None and made.sent < made.planned:
        reasons.append(
            f"the generator ended after {made.sent:,} of {made.planned:,} planned events: "
            f"{made.reason or 'no reason given'}"
        )
    notes = [f"{gap.what} not seen for {gap.gap_seconds:.1f} s: {gap.reason}" for gap in gaps]
    if made.failed:
        notes.append(f"{made.failed} messages were refused or timed out at the broker")
    if made.unknown:
        notes.append(f"{made.unknown} messages have an unknown outcome at the producer")
    return Validity(
        is_valid=not reasons,
        reasons=tuple(reasons),
        notes=tuple(notes),
        generator=made,
        telemetry_gaps=gaps,
    )


def _stretches(what: str, readings: list[tuple[int, str]]) -> list[TelemetryGap]:
    readings = sorted(readings)
    gaps, started_at, last_at, reason = [], readings[0][0], readings[0][0], readings[0][1]
    for at, text in readings[1:]:
        if at - last_at > SILENCE_SECONDS * NANOSECONDS:
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
