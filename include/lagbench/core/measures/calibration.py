"""Estimate what a simulation needs of real pods: time for a message, pod start, and join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median

from lagbench.core.measures.evidence.lag_readings import BIN_NS, GAP_SECONDS
from lagbench.core.measures.evidence.observed_group import observed_pod_rate
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.reaction_stamps import pod_stamps
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.telemetry.records_of_programs import ConsumerProgress, PodStarted
from lagbench.core.telemetry.records_of_recorder import GroupSample

FEWEST_BUSY_SECONDS = 10
"""Of pods with work in their queues; of fewer the rate is only a bound."""
_BINS = 50
"""Five seconds: commits come no more often."""


class Estimate(MeasureModel):
    """Median and range of ``n`` values; None: not enough data, and ``note`` says why."""

    n: int = 0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""


class Calibration(MeasureModel):
    """Figures of the pods of a run; ``process_ms`` is at ``concurrency`` messages at once."""

    process_ms: Estimate
    concurrency: int
    start_seconds: Estimate  # from a pod's creation to Ready
    join_seconds: Estimate  # from there to its first work, or to its first partition


def calibration(run: RunEvidence) -> Calibration:
    """Return the estimates of a run or an observation.

    Only pods that were created while it was recorded count for start and join.
    """
    started = [record for record in run.records if isinstance(record, PodStarted)]
    concurrency = started[0].concurrency if started else 1
    starts, joins = _starts_and_joins(run)
    none = "no pod was created in the run, and was seen"
    return Calibration(
        process_ms=_process_ms(run, concurrency),
        concurrency=concurrency,
        start_seconds=_estimate(starts, missing=f"{none} Ready"),
        join_seconds=_estimate(joins, missing=f"{none} at work"),
    )


def _process_ms(run: RunEvidence, concurrency: int) -> Estimate:
    rates = list(_rates(run))
    busy = [rate for rate, was_busy in rates if was_busy]
    if len(busy) >= FEWEST_BUSY_SECONDS:
        note = f"{len(busy)} seconds of pods that had work in their queues"
        return _estimate([1000 * concurrency / rate for rate in busy], note)
    if rates:
        return _bound(max(rate for rate, _ in rates), concurrency)
    found = observed_pod_rate(run.records, run.lag)
    if found.per_second is not None:
        return _estimate([1000 / found.per_second], f"by commits: {found.source}")
    members = max((r.members for r in run.records if isinstance(r, GroupSample)), default=0)
    done = run.rate.processed
    parts = [int(done[at : at + _BINS].sum()) for at in range(0, done.size - _BINS + 1, _BINS)]
    seconds = _BINS * BIN_NS / NANOSECONDS
    return _bound(max(parts, default=0) / seconds / max(1, members), concurrency)


def _bound(rate: float, concurrency: int) -> Estimate:
    """Return that the pods were not busy; the highest rate that was seen is a lower bound."""
    why = "not enough data: no pod was busy for long enough"
    if rate > 0:
        why += f": one did {rate:,.0f}/s, which is a lower bound"
        why += f", so process_ms is at most {1000 * concurrency / rate:.3g}"
    return Estimate(note=why)


def _rates(run: RunEvidence) -> Iterator[tuple[float, bool]]:
    """Yield what each pod did between two reports, and whether work waited at both of them."""
    reports: dict[str, list[ConsumerProgress]] = {}
    for record in run.records:
        if isinstance(record, ConsumerProgress):
            reports.setdefault(record.source, []).append(record)
    hidden = [
        (action.started_at, action.ended_at)
        for action in run.actions
        if action.started_at is not None
    ]
    for own in reports.values():
        for left, right in pairwise(sorted(own, key=lambda report: report.at)):
            seconds = (right.at - left.at) / NANOSECONDS
            done = right.processed_total - left.processed_total
            if done <= 0 or not 0 < seconds <= GAP_SECONDS:
                continue
            if any(right.at > start and (end is None or left.at < end) for start, end in hidden):
                continue
            yield done / seconds, left.queued > 0 and right.queued > 0


def _starts_and_joins(run: RunEvidence) -> tuple[list[float], list[float]]:
    """Return the seconds from creation to Ready, and from Ready to the first work."""
    has_tasks = not kind_of(run.scenario.consumer.kind).has_members
    starts, joins = list[float](), list[float]()
    for timeline in run.timelines.values():
        if timeline.ready_at is None or timeline.created_at < (run.from_at or 0):
            continue
        starts.append((timeline.ready_at - timeline.created_at) / NANOSECONDS)
        stamps = pod_stamps(run.records, timeline, run.clocks, has_tasks=has_tasks)
        worked = next((s.at for s in (stamps["t8"], stamps["t7"]) if s.at is not None), None)
        if worked is not None:
            joins.append((worked - timeline.ready_at) / NANOSECONDS)
    return starts, joins


def _estimate(values: Sequence[float], note: str = "", *, missing: str = "") -> Estimate:
    """Return median and range: of many values the range from the 5th to the 95th percentile."""
    every = sorted(values)
    if not every:
        return Estimate(note=f"not enough data: {missing}")
    outer = len(every) // 20
    low, high = every[outer], every[-1 - outer]
    return Estimate(n=len(every), median=median(every), low=low, high=high, note=note)
