"""Check that Kafka took the planned load at the planned time.

Messages that the producer has handed to its client and that Kafka has not acknowledged wait in the
client and are not part of any lag. If more than one second of the planned rate (at least 1,000
messages) waits there, the load is not the planned one and the run is invalid. The producer reports
the number once a second; in a gap between reports it is unknown. The recorder's end offsets show
the same from the other side: the content of the log at a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.measures.evidence.actions import NOTHING_HIDDEN, Hidden
from lagbench.core.measures.evidence.gaps import Gap, gaps_between, gaps_text
from lagbench.core.measures.evidence.load_window import LoadWindow
from lagbench.core.measures.evidence.series import LagSeries
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.scenario.stream import OfferedLoad
from lagbench.core.telemetry import (
    LoadStep,
    ProducerProgress,
    StreamFinished,
    StreamStarted,
    TelemetryRecord,
)

FEWEST_WAITING = 1000
"""Below this, batches in flight are not a backlog."""
WAITING_SECONDS = 1.0
_STEP_SLACK_SECONDS = 0.1
_READING_SECONDS = 1.0
"""End offsets may have been read this long before the stamp of their sample."""


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
        second = (report.at - stream_started_at) / NANOSECONDS
        allowed = max(FEWEST_WAITING, WAITING_SECONDS * _highest_rate(load, tail, second))
        waiting = max(report.planned, report.sent) - report.acked - report.failed
        if waiting > allowed:
            before = reported[max(0, index - 1)].at
            after = reported[min(len(reported) - 1, index + 1)].at
            found.append(HeldBack(report.at, waiting, allowed, before, after))
    return tuple(found)


def most_waiting(records: Sequence[TelemetryRecord]) -> int | None:
    """Return the most messages that ever waited in the client; None: never reported."""
    reported = [r for r in records if isinstance(r, ProducerProgress)]
    return max((r.sent - r.acked - r.failed for r in reported), default=None)


def doubts_of_the_load(
    records: Sequence[TelemetryRecord],
    load: OfferedLoad,
    window: LoadWindow,
    recorded_starts_at: Sequence[int] = (),
    hidden: Hidden = NOTHING_HIDDEN,
) -> list[str]:
    """Return why Kafka did not take the planned load, or why this is unknown.

    A backlog of the client that an action hides is left out.

    ``recorded_starts_at``: the stream's start from sources other than the producer's record.
    """
    started_at = window.stream_started_at
    if started_at is None:
        return [
            "the start of the stream is unknown, and so are the times at which the load changed"
        ]
    reasons = _contradictions(records, load, started_at)
    apart = max((abs(at - started_at) for at in recorded_starts_at), default=0) / NANOSECONDS
    if apart > _STEP_SLACK_SECONDS:
        reasons.append(f"two records of the stream's start are {apart:.1f} s apart")
    held = [h for h in held_back(records, load, started_at) if not hidden.by("backlog", h.at)]
    if held:
        worst = max(held, key=lambda found: found.waiting)
        reasons.append(
            f"Kafka received the load late: {worst.waiting:,} messages waited in the producer's "
            "client"
            f" {(worst.at - started_at) / NANOSECONDS:+.0f} s after the stream began (allowed:"
            f" {worst.allowed:,.0f}, one second of the planned rate)"
        )
    silent = unheard(records, window)
    if silent:
        reported = gaps_text("the producer", silent, started_at).replace("reading", "report")
        reasons.append(f"the load that Kafka received is unknown: {reported}")
    return reasons


def log_behind(
    lag: LagSeries,
    load: OfferedLoad,
    stream_started_at: int | None,
    hidden: Hidden = NOTHING_HIDDEN,
) -> list[str]:
    """Return where the log held less than planned by then, by more than may wait.

    Samples in which an action hides a backlog of the client are left out.
    """
    if stream_started_at is None:
        return []
    ends = lag.end_offsets.sum(axis=1)
    worst, worst_at, worst_allowed = 0.0, 0, 0.0
    for at, held in zip(lag.at.tolist(), ends.tolist(), strict=True):
        second = (at - stream_started_at) / NANOSECONDS
        if np.isnan(held) or not 0 <= second <= load.duration_seconds + _READING_SECONDS:
            continue
        if hidden.by("backlog", at):
            continue
        due = load.planned_count_at(round((second - _READING_SECONDS) * NANOSECONDS))
        allowed = max(FEWEST_WAITING, WAITING_SECONDS * _highest_rate(load, 0.0, second))
        if due - held > max(allowed, worst):
            worst, worst_at, worst_allowed = due - held, at, allowed
    if not worst:
        return []
    reason = (
        f"the load reached the log late: {worst:,.0f} messages that were due were not in it"
        f" {(worst_at - stream_started_at) / NANOSECONDS:+.0f} s after the stream began (allowed:"
        f" {worst_allowed:,.0f})"
    )
    return [reason]


def log_ahead(lag: LagSeries, load: OfferedLoad, stream_started_at: int | None) -> list[str]:
    """Return where the log held more than planned by then."""
    if stream_started_at is None:
        return []
    ends = lag.end_offsets.sum(axis=1)
    for at, held in zip(lag.at.tolist(), ends.tolist(), strict=True):
        second = (at - stream_started_at) / NANOSECONDS + _READING_SECONDS
        if np.isnan(held) or second >= load.duration_seconds:
            continue
        due = load.planned_count_at(round(second * NANOSECONDS))
        if held > due + FEWEST_WAITING:
            more, when = held - due, second - _READING_SECONDS
            return [f"the log held {more:,.0f} messages that were not yet due at {when:+.0f} s"]
    return []


def unheard(records: Sequence[TelemetryRecord], window: LoadWindow) -> list[Gap]:
    """Return the gaps in the stream in which the producer reported nothing."""
    start, end = window.stream_started_at, window.stream_ended_at
    if start is None or end is None:
        return []
    reported = [record.at for record in records if isinstance(record, ProducerProgress)]
    if not any(start <= at <= end + NANOSECONDS for at in reported):
        return [Gap(start, end)]
    return gaps_between(reported, start, end)


def _contradictions(
    records: Sequence[TelemetryRecord], load: OfferedLoad, stream_started_at: int
) -> list[str]:
    """Return where the producer reports another load than the scenario."""
    for record in records:
        if isinstance(record, StreamStarted) and (
            record.planned_total != load.total
            or abs(record.planned_seconds - load.duration_seconds) > _STEP_SLACK_SECONDS
        ):
            reported = f"{record.planned_total:,} messages in {record.planned_seconds:g} s"
            asked = f"{load.total:,} in {load.duration_seconds:g} s"
            return [f"the producer planned {reported}, the scenario {asked}"]
    for record in records:
        if isinstance(record, LoadStep) and not _is_planned(record, load, stream_started_at):
            second = (record.at - stream_started_at) / NANOSECONDS
            reported = f"a step to {record.rate_after:g}/s at {second:+.1f} s"
            return [f"the producer reported {reported}, which is not in the scenario"]
    finished = [r for r in records if isinstance(r, StreamFinished)]
    reports = [r.at for r in records if isinstance(r, ProducerProgress)]
    if finished and reports and max(reports) - finished[-1].at > _STEP_SLACK_SECONDS * NANOSECONDS:
        # Reports are stamped by the stream's own pace, the end by the wall clock.
        seconds = (max(reports) - finished[-1].at) / NANOSECONDS
        why = f"its stream ended {seconds:.1f} s before its last report of progress"
        return [f"the clock of {finished[-1].source} stepped: {why}"]
    return []


def _is_planned(step: LoadStep, load: OfferedLoad, stream_started_at: int) -> bool:
    offset = step.at - stream_started_at
    slack = _STEP_SLACK_SECONDS * NANOSECONDS
    if offset > load.duration_ns - slack:
        return True  # the end of the stream, or its tail
    return any(
        abs(planned.at_ns - offset) <= slack
        and abs(planned.rate_after - step.rate_after) <= 1e-6 * max(1.0, planned.rate_after)
        for planned in load.steps
    )


def _highest_rate(load: OfferedLoad, tail_rate: float, second: float) -> float:
    """Return the highest planned rate of the second that ends at ``second``."""
    edges = [*(part.start_seconds for part in load.segments), load.duration_seconds]
    rates = [*(part.rate_per_second for part in load.segments), tail_rate]
    ends = [*edges[1:], float("inf")]
    return max(
        (
            rate
            for rate, start, end in zip(rates, edges, ends, strict=True)
            if start <= second and end > second - WAITING_SECONDS
        ),
        default=rates[0],
    )
