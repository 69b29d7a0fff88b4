"""Find where the producer's records contradict each other, the manifest, or the scenario's tail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Any

from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.scenario.stream import Tail
from lagbench.core.telemetry import ProducerProgress, StreamFinished, StreamStarted, TelemetryRecord

_COMPLETED = "completed"
_SAME_STREAM_SECONDS = 0.1
_SAME_SECONDS = 1.0
"""Allowed difference of the tail's length between the producer and the Dag's note."""


def contradictions_of_the_producer(
    records: Sequence[TelemetryRecord],
    *,
    scenario_total: int,
    tail: Tail | None,
    noted_tail: Mapping[str, Any] | None,
) -> list[str]:
    """Return why the producer's own records do not show one stream that kept its plan.

    ``noted_tail`` is the tail in the manifest, ``tail`` the scenario's tail.
    """
    started = [record for record in records if isinstance(record, StreamStarted)]
    finished = [record for record in records if isinstance(record, StreamFinished)]
    reports = [record for record in records if isinstance(record, ProducerProgress)]
    return [
        *_of_one_stream(started, finished),
        *_of_the_tail(started, tail),
        *(_of_progress(reports, finished[-1]) if finished else ()),
        *(_of_the_end(finished[-1], scenario_total, noted_tail) if finished else ()),
    ]


def _of_one_stream(
    started: Sequence[StreamStarted], finished: Sequence[StreamFinished]
) -> list[str]:
    sources = {record.source for record in (*started, *finished)}
    if len(sources) > 1:
        return [f"{len(sources)} producers reported a stream: {', '.join(sorted(sources))}"]
    instants = [record.stream_started_at for record in started]
    apart = (max(instants) - min(instants)) / NANOSECONDS if instants else 0.0
    if apart > _SAME_STREAM_SECONDS:
        return [f"the producer reported two starts of the stream, {apart:.1f} s apart"]
    return []


def _of_the_tail(started: Sequence[StreamStarted], tail: Tail | None) -> list[str]:
    """Return where the producer had another tail than the scenario; a missing rate is ignored."""
    asked = 0.0 if tail is None else tail.rate_per_second
    for record in started:
        reported = record.tail_rate_per_second
        if reported and not isclose(reported, asked, rel_tol=1e-6):
            return [f"the producer's tail has {reported:g}/s, the scenario's {asked:g}/s"]
    return []


def _of_progress(reports: Sequence[ProducerProgress], end: StreamFinished) -> list[str]:
    latest = max((record.lateness_max_ms or 0.0 for record in reports), default=0.0)
    if latest > end.lateness_max_ms * 1.001 + 1:
        reported = f"{end.lateness_max_ms:.0f} ms at most, its progress {latest:.0f} ms"
        return [f"the producer's last record has a lateness of {reported}"]
    if any(record.acked > record.sent for record in reports):
        return ["the producer's progress has more messages acknowledged than sent"]
    return []


def _of_the_end(
    end: StreamFinished, scenario_total: int, noted_tail: Mapping[str, Any] | None
) -> list[str]:
    reasons = []
    if end.reason != _COMPLETED and not end.fell_behind:
        reasons.append(f"the producer did not complete its stream: {end.reason}")
    for name, count, ranges in (
        ("failed", end.failed, end.failed_seqs),
        ("unknown", end.unknown, end.unknown_seqs),
    ):
        reported = sum(last - first + 1 for first, last in ranges or ())
        if ranges is not None and reported != count:
            reasons.append(f"the producer names {reported:,} {name} messages and counts {count:,}")
    if noted_tail is None:
        return reasons
    if end.tail_sent + scenario_total != end.sent and end.reason == _COMPLETED:
        parts = f"{end.sent:,} sent, {end.tail_sent:,} of them in the tail"
        reasons.append(f"the producer reports {parts}; the scenario has {scenario_total:,}")
    noted, seconds = noted_tail.get("sent"), noted_tail.get("seconds")
    if noted is not None and noted != end.tail_sent:
        reasons.append(f"the tail had {end.tail_sent:,} messages, by the manifest {noted:,}")
    if seconds is not None and abs(seconds - end.tail_seconds) > _SAME_SECONDS:
        reasons.append(f"the tail took {end.tail_seconds:.1f} s, by the manifest {seconds:.1f} s")
    return reasons
