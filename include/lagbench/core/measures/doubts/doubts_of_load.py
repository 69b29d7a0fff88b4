"""Find why the load was not the planned one, or why no clock measured it.

Each makes the run invalid: Kafka took another load than planned, and no measure is meaningful. More
than one second of the planned rate (at least 1,000 messages) in the producer's client is a load
that came late; the recorder's end offsets show the same from the other side. Disturbances
by an action of the scenario are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

import numpy as np

from lagbench.core.measures.doubts.doubts_of_policy import Window
from lagbench.core.measures.evidence.group_events import STOPPING_PHASE
from lagbench.core.measures.evidence.lag_readings import Gap, first_cuts, gaps_between, gaps_text
from lagbench.core.measures.evidence.producer_report import (
    FEWEST_WAITING,
    fell_behind,
    generator,
    held_back,
    lateness_text,
    may_wait,
)
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.policy.stream_windows import START_PRECISION_SECONDS
from lagbench.core.scenario.actions import begin_text
from lagbench.core.scenario.event_stream import partition_shares
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    ClockStepped,
    Phase,
    PodStopped,
    ProducerProgress,
    Scaled,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import ReplicaSample

SKEW_DEVIATIONS, SKEW_TOLERANCE = 6.0, 0.005
"""Beyond chance, and beyond what the shares of the rarest keys are rounded by."""
EARLY_SECONDS = 0.1
"""A larger clock offset is reported; a smaller one is within the precision of the clocks."""
_STEP_SLACK_SECONDS = 0.1
_READING_SECONDS = 1.0
"""End offsets may have been read this long before the stamp of their sample."""


def aborted(run: RunEvidence) -> str:
    """Return why the run was given up by its own limits, and when; empty: it was not."""
    made, started_at = generator(run.records, run.offered.total), run.load.stream_started_at
    for record in run.records:
        if isinstance(record, StreamFinished) and record.aborted and started_at is not None:
            second = (record.at - started_at) / NANOSECONDS
            return (
                f"aborted {second:.0f} s after the stream began: {record.aborted}; "
                f"{record.sent:,} of {made.planned or 0:,} planned messages were sent"
            )
    return ""


def unkept_plan(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield how the producer's own report differs from its plan."""
    made = generator(run.records, run.offered.total)
    if made.fell_behind is None:
        yield "the producer never reported that it finished"
        return
    planned, sent, acked = made.planned or 0, made.sent or 0, made.acked or 0
    late = made.lateness_p99_ms or 0.0, made.lateness_max_ms or 0.0
    if made.fell_behind:
        yield f"the generator fell behind: {made.reason or 'no reason given'}"
    elif fell_behind(*late):
        yield f"the generator fell behind: {lateness_text(*late)}"
    elif sent < planned:
        yield (
            f"the generator ended after {sent:,} of {planned:,} planned events: "
            f"{made.reason or 'no reason given'}"
        )
    if acked < sent or made.failed or made.unknown:
        yield (
            f"Kafka acknowledged {acked:,} of {planned:,} planned messages: {made.failed or 0:,}"
            f" were rejected or timed out, and of {made.unknown or 0:,} the outcome is not known"
        )


def unplayed_actions(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the actions that were not played as planned, and those that were not planned."""
    for action, of_plan in zip(run.actions, run.scenario.actions, strict=True):
        if action.problem:
            yield (
                f"actions.{action.number} ({action.kind}, {begin_text(of_plan)}) {action.problem}"
            )
    stamped = {r.number for r in run.records if isinstance(r, ActionStarted | ActionEnded)}
    unplanned = sorted(stamped - set(range(len(run.actions))))
    if unplanned:
        yield f"actions {unplanned} were played, but the scenario does not plan them"


def other_stream(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield why the start of the stream is unknown, or why it was not the scenario's stream."""
    started_at = run.load.stream_started_at
    if started_at is None:
        yield "the start of the stream is unknown, and so are the times at which the load changed"
        return
    started = [record for record in run.records if isinstance(record, StreamStarted)]
    finished = [record for record in run.records if isinstance(record, StreamFinished)]
    sources = sorted({record.source for record in (*started, *finished)})
    if len(sources) > 1:
        yield f"{len(sources)} producers reported a stream: {', '.join(sources)}"
    starts = [*(record.stream_started_at for record in started), *run.recorded_starts_at]
    apart = max((abs(at - started_at) for at in starts), default=0) / NANOSECONDS
    if apart > _STEP_SLACK_SECONDS:
        yield f"two records of the stream's start are {apart:.1f} s apart"
    for record in started:
        if record.planned_total != run.offered.total:
            reported = f"the producer planned {record.planned_total:,} messages"
            yield f"{reported}, the scenario {run.offered.total:,}"
    last = finished[-1] if finished else None
    if last is not None and last.reason != "completed" and not last.fell_behind:
        yield f"the producer did not complete its stream: {last.reason}"
    reports = [r.at for r in run.records if isinstance(r, ProducerProgress)]
    if last is not None and reports:
        # Reports are stamped by the stream's own pace, the end by the wall clock.
        early = (max(reports) - last.at) / NANOSECONDS
        if early > _STEP_SLACK_SECONDS:
            why = f"its stream ended {early:.1f} s before its last report of progress"
            yield f"the clock of {last.source} stepped: {why}"


def late_at_the_client(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the backlog in the producer's client, and where it did not report one for long."""
    start, end = run.load.stream_started_at, run.load.stream_ended_at
    if start is None:
        return
    held = [
        one
        for one in held_back(run.records, run.offered, start)
        if not run.hidden.by("backlog", one.at)
    ]
    if held:
        worst = max(held, key=lambda found: found.waiting)
        yield (
            f"Kafka received the load late: {worst.waiting:,} messages waited in the producer's "
            "client"
            f" {(worst.at - start) / NANOSECONDS:+.0f} s after the stream began (allowed:"
            f" {worst.allowed:,.0f}, one second of the planned rate)"
        )
    if end is None:
        return
    reported = [r.at for r in run.records if isinstance(r, ProducerProgress)]
    silent = gaps_between(reported, start, end)
    if not any(start <= at <= end + NANOSECONDS for at in reported):
        silent = [Gap(start, end)]
    if silent:
        text = gaps_text("the producer", silent, run.load.origin_at).replace("reading", "report")
        yield f"the load that Kafka received is unknown: {text}"


def other_log(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield where the log held less than planned by then, by more than may wait, or more."""
    start, load = run.load.stream_started_at, run.offered
    if start is None:
        return
    behind, ahead = [], []
    ends = run.lag.end_offsets.sum(axis=1)
    for at, held in zip(run.lag.at.tolist(), ends.tolist(), strict=True):
        second = (at - start) / NANOSECONDS
        if np.isnan(held):
            continue
        due, soon_due = (
            load.planned_count_at(round((second + shift) * NANOSECONDS))
            for shift in (-_READING_SECONDS, _READING_SECONDS)
        )
        allowed = may_wait(load, second)
        is_inside = 0 <= second <= load.duration_seconds + _READING_SECONDS
        if is_inside and due - held > allowed and not run.hidden.by("backlog", at):
            behind.append((due - held, second, allowed))
        if second + _READING_SECONDS < load.duration_seconds and held > soon_due + FEWEST_WAITING:
            ahead.append((held - soon_due, second))
    if behind:
        lacking, second, allowed = max(behind, key=lambda found: found[0])
        yield (
            f"the load reached the log late: {lacking:,.0f} messages that were due were not in it"
            f" {second:+.0f} s after the stream began (allowed: {allowed:,.0f})"
        )
    if ahead:
        more, second = ahead[0]
        yield f"the log held {more:,.0f} messages that were not yet due at {second:+.0f} s"


def clock_steps(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the clock steps of the measured part; a step may lie just outside."""
    for record in run.records:
        if isinstance(record, ClockStepped):
            reach = abs(round(record.step_seconds * NANOSECONDS)) + NANOSECONDS
            if window.from_at - reach <= record.at <= window.until_at + reach:
                yield (
                    f"the clock of {record.source} stepped by {record.step_seconds:+.3f} s"
                    f" {window.when(record.at)}: instants before and after are not comparable"
                )


def done_before_due(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield messages done before they were due: a clock stepped, or the clocks disagree."""
    median = ((run.accounting or {}).get("time_lag_seconds") or {}).get("p50")
    known = [seconds for seconds in (run.earliest_median_seconds, median) if seconds is not None]
    earliest = min(known, default=0.0)
    if earliest < -EARLY_SECONDS:
        why = "the clocks of the producer and of the pods do not agree, or one stepped"
        yield f"messages were done {-earliest:.1f} s before they were due (median): {why}"


def other_partitions(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield messages in other partitions than the planned keys give them.

    A user's samples may have keys of their own, and partitions that were added move keys.
    """
    if run.misplaced:
        yield f"{run.misplaced:,} messages are in another partition than planned"
    counts = (run.accounting or {}).get("partition_counts") or {}
    total, scenario = sum(counts.values()), run.scenario
    if not total or scenario.payload is not None or scenario.partition_plan.growths:
        return
    shares = partition_shares(scenario.keys, scenario.partitions, scenario.seed)
    for partition, share in enumerate(shares.tolist()):
        due, found = share * total, counts.get(str(partition), 0)
        if abs(found - due) > SKEW_DEVIATIONS * sqrt(due) + SKEW_TOLERANCE * total:
            text = f"partition {partition} has {found:,} of {total:,} messages"
            yield f"{text}, the planned keys give it {due:,.0f}: another seed or skew"
            return


def missed_start(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield by how much the stream missed the start for which cron windows were placed."""
    planned = run.manifest.get("stream_planned_at")
    started_at = next(iter(run.recorded_starts_at), None)
    if planned is None or started_at is None:
        return
    late = (started_at - planned) / NANOSECONDS
    if abs(late) >= START_PRECISION_SECONDS:
        yield f"the stream started {late:+.1f} s from its planned start: cron windows are elsewhere"


_POLICY_GONE_SECONDS = 5.0
"""Time for which the policy may still scale after the phase that deletes it has started."""


def end_of_the_run(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield why the measurement may not have ended where it seems to, or not with that fence.

    It ends with the phase that deletes the policy: nothing scales after it.
    """
    if not any(isinstance(r, Phase) and r.name == STOPPING_PHASE for r in run.records):
        yield f"no record of the phase {STOPPING_PHASE}, which ends a measurement"
    gone_at = window.until_at + round(_POLICY_GONE_SECONDS * NANOSECONDS)
    late = next((r.at for r in run.records if isinstance(r, Scaled) and r.at > gone_at), None)
    if late is not None:
        seconds = (late - window.until_at) / NANOSECONDS
        yield f"the replicas were scaled {seconds:.1f} s after the measurement had ended"
    if run.fence is None:
        return
    ends, committed = run.fence.get("events") or {}, run.fence.get("committed") or {}
    beyond = sorted(int(p) for p, at in committed.items() if (at or 0) > ends.get(p, 0))
    if beyond:
        yield f"at the fence the group had committed more than the log held of {beyond}"


def incomplete_fence(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the partitions of the topic that the fence lacks."""
    if run.fence is None:
        return
    for name in ("events", "committed"):
        known = {int(partition) for partition in run.fence.get(name) or {}}
        lacking = sorted(set(range(run.topic_partitions.last)) - known)
        if lacking:
            yield f"the fence has no {name} offset of partitions {lacking}"
            return


def no_lag(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield that an observed group's lag is not known at all."""
    if run.observation is not None and not run.lag.known_at:
        yield "the lag of the group was never known: a partition has no commit, or no reading"


def above_the_ceiling(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield that more replicas were wanted than the policy allows.

    One sample above the ceiling may be older than the policy; a second one means another policy.
    """
    if not run.has_policy:
        return
    above = [
        (record.spec, ceiling)
        for record in run.records
        if isinstance(record, ReplicaSample) and window.holds(record.at)
        for ceiling in [run.policies.ceiling_at(record.at)]
        if record.spec > ceiling
    ]
    if len(above) > 1:
        replicas, ceiling = max(above)
        yield f"{replicas} replicas were wanted; the policy allows {ceiling}"


def fallen_offsets(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first partition whose end offset fell: the topic was made again, or cut off."""
    for partition, at in sorted(first_cuts(run.lag).items(), key=lambda cut: cut[1])[:1]:
        column = run.lag.partitions.tolist().index(partition)
        ends = run.lag.end_offsets[:, column]
        row = run.lag.at.tolist().index(at)
        yield (
            f"the end offset of partition {partition} fell from {np.nanmax(ends[:row]):,.0f} to"
            f" {ends[row]:,.0f} {window.when(at)}: the topic was made again, or records were cut"
            " off"
        )


def stale_readings(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the times whose readings of the lag were left out: a note."""
    for gap in run.stale_lag:
        yield (
            f"the readings of the lag from {window.second(gap.started_at)} to"
            f" {window.second(gap.ended_at)} were stale: offsets stood still, and the pods'"
            " commits continued; they are left out"
        )


def ledger_holes(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the ledger's own offsets that no row has, and the rows that are there twice.

    With such a hole messages count as lost, or as done twice, though no pod lost or repeated them.
    """
    found = run.ledger
    if found is None:
        return
    if found.landed_twice:
        yield f"{found.landed_twice:,} rows of the ledger landed twice, under one offset"
    ends = (run.fence or {}).get("processed") or {}
    has_markers = run.scenario.consumer.commit == "transactional"
    for partition, end in sorted(ends.items()):
        missing = int(end) - found.batches.get(int(partition), 0)
        if missing > 0 and not has_markers:  # a transaction's end takes an offset, too
            yield (
                f"the ledger's partition {partition} ends at offset {end}, and {missing} of its"
                " batches have no row"
            )
            return


def pods_totals(run: RunEvidence, _window: Window) -> Iterator[str]:
    """Yield the first pod that finished in order and had counted more than the ledger has of it."""
    by_pod = (run.accounting or {}).get("by_pod") or {}
    for record in run.records:
        if not isinstance(record, PodStopped) or not record.is_graceful:
            continue
        rows, counted = (by_pod.get(record.source) or {}).get("processed"), record.processed_total
        if rows is not None and counted is not None and counted > rows:
            yield f"{record.source} had processed {counted:,} messages, the ledger has {rows:,}"
            return
