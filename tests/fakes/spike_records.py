"""Telemetry records of a simulated run, as producer, pods, recorder and autoscaler send them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from lagbench.core.telemetry import records_of_programs as autoscaler
from lagbench.core.telemetry import records_of_programs as consumer
from lagbench.core.telemetry import records_of_programs as phases
from lagbench.core.telemetry import records_of_programs as producer
from lagbench.core.telemetry import records_of_programs as record
from lagbench.core.telemetry import records_of_recorder as recorder
from tests.fakes.spike_simulation import Outcome, Pod, SpikeStory
from tests.fakes.spike_tables import (
    STEPS_PER_SECOND,
    committed_by_second,
    end_by_second,
    instant,
    tables,
)

PHASES = (  # name, from, to (None: the end of the stream plus so many seconds)
    ("bench_up", -11.5, -11.0),
    ("apply_policy", -10.5, -9.5),
    ("run_consumers", -9.0, -4.0),
    ("inject_spike", -1.0, 300.2),
    ("await_drained", 300.3, 302.4),
    ("await_settled", 302.5, 303.5),
    ("fence_run", 303.6, 304.6),
)


def records(story: SpikeStory, outcome: Outcome, epoch: int) -> list[record.Record]:
    """Return all records of the run, ordered by instant."""
    parts = (
        _phases(epoch),
        _producer(story, outcome, epoch),
        *(_pod(pod, story, outcome, epoch) for pod in outcome.pods),
        _recorder(story, outcome, epoch),
        _autoscaler(story, outcome, epoch),
    )
    return sorted((record for part in parts for record in part), key=lambda record: record.at)


def _phases(epoch: int) -> Iterator[record.Record]:
    for name, started, finished in PHASES:
        yield phases.Phase(at=instant(epoch, started), source="dag", name=name, state="started")
        yield phases.Phase(at=instant(epoch, finished), source="dag", name=name, state="finished")


def _producer(story: SpikeStory, outcome: Outcome, epoch: int) -> Iterator[record.Record]:
    source, total = "producer-0", int(end_by_second(story, outcome)[-1].sum())
    spike_start, spike_end = story.before_seconds, story.before_seconds + story.hold_seconds
    base, high = story.base_rate, story.base_rate * story.spike_mult
    yield producer.StreamStarted(
        at=epoch - 20_000_000,
        source=source,
        stream_started_at=epoch,
        seed=1,
        profile="step",
        planned_total=total,
        planned_seconds=story.end_seconds,
        partitions=story.partitions,
    )
    steps: tuple[tuple[float, Literal["spike_start", "spike_end"], float, float], ...] = (
        (spike_start, "spike_start", base, high),
        (spike_end, "spike_end", high, base),
    )
    for second, step, before, after in steps:
        at = instant(epoch, second)
        yield producer.LoadStep(
            at=at, source=source, step=step, rate_before=before, rate_after=after
        )
    for second, ends in enumerate(end_by_second(story, outcome)):
        sent = int(ends.sum())
        yield producer.ProducerProgress(
            at=instant(epoch, second + 0.01),
            source=source,
            planned=sent,
            sent=sent,
            acked=sent,
            failed=0,
            lateness_p50_ms=2.1,
            lateness_p99_ms=5.2,
            lateness_max_ms=9.0,
        )
    yield producer.StreamFinished(
        at=instant(epoch, story.end_seconds + 0.1),
        source=source,
        planned=total,
        sent=total,
        acked=total,
        failed=0,
        unknown=0,
        lateness_p50_ms=2.1,
        lateness_p99_ms=5.4,
        lateness_max_ms=12.5,
        fell_behind=False,
        reason="completed",
        stream_sha256="5e1f" * 16,
    )


def _pod(pod: Pod, story: SpikeStory, outcome: Outcome, epoch: int) -> Iterator[record.Record]:
    name, member = pod.name, f"member-{pod.name}"
    started = instant(epoch, pod.created + 0.25)
    yield consumer.PodStarted(
        at=instant(epoch, pod.created + 0.7),
        source=name,
        process_started_at=started,
        balancer="cooperative-sticky",
        concurrency=1,
        process_ms=story.process_ms,
        instance_id=None,
    )
    yield consumer.GroupJoined(at=instant(epoch, pod.joined), source=name, member_id=member)
    own = [event for event in outcome.events if event.pod == name]
    for number, event in enumerate(own, start=1):
        if event.kind == "assigned":
            yield consumer.PartitionsAssigned(
                at=instant(epoch, event.second),
                source=name,
                member_id=member,
                partitions=event.partitions,
                owned=event.owned,
                is_incremental=True,
                rebalance=number,
            )
        else:
            yield consumer.PartitionsRevoked(
                at=instant(epoch, event.second),
                source=name,
                member_id=member,
                partitions=event.partitions,
                owned=event.owned,
                is_lost=False,
                in_flight=1,
                finish_seconds=0.012,
                rebalance=number,
            )
    if pod.first_done is not None:
        at = instant(epoch, pod.first_done + story.process_ms / 1000)
        yield consumer.FirstRecordDone(at=at, source=name, partition=0, offset=0)
    yield from _pod_progress(pod, story, outcome, epoch)
    if pod.sigterm is not None and pod.gone is not None:
        at, total = instant(epoch, pod.sigterm), _processed(pod, outcome, pod.sigterm + 1)
        yield consumer.SigtermReceived(at=at, source=name, queued=0, in_flight=1)
        yield consumer.PodStopped(
            at=instant(epoch, pod.gone - 0.1),
            source=name,
            reason="sigterm",
            is_graceful=True,
            abandoned=0,
            processed_total=total,
        )


def _processed(pod: Pod, outcome: Outcome, until: float) -> int:
    steps = outcome.done[: max(0, round(until * STEPS_PER_SECOND))]
    return sum(sum(step.get(pod.name, {}).values()) for step in steps)


def _pod_progress(
    pod: Pod, story: SpikeStory, outcome: Outcome, epoch: int
) -> Iterator[record.Record]:
    first, end = max(0, int(pod.joined) + 1), int(pod.sigterm or story.end_seconds)
    total = _processed(pod, outcome, first)
    for second in range(first, end + 1):
        steps = outcome.done[second * STEPS_PER_SECOND : (second + 1) * STEPS_PER_SECOND]
        count = sum(sum(step.get(pod.name, {}).values()) for step in steps)
        owned = [
            e.owned for e in outcome.events if e.pod == pod.name and e.second <= second
        ] or [[]]  # fmt: skip
        total += count
        yield consumer.ConsumerProgress(
            at=instant(epoch, second + 0.99),
            source=pod.name,
            processed_total=total,
            consume_rate=float(count),
            inflight=1 if count else 0,
            queued=0,
            assigned_partitions=len(owned[-1]),
            cpu_seconds=round(0.4 + 0.03 * (second - first), 3),
        )


def _recorder(story: SpikeStory, outcome: Outcome, epoch: int) -> Iterator[record.Record]:
    source = "recorder-0"
    ends, committed = end_by_second(story, outcome), committed_by_second(story, outcome)
    for second in range(int(story.end_seconds) + 1):
        rows = [
            (p, int(ends[second, p]), int(committed[second, p])) for p in range(story.partitions)
        ]
        yield recorder.LagSample(at=instant(epoch, second), source=source, partitions=list(rows))
        for component, share, memory in (
            ("recorder", 0.012, 48 << 20),
            ("localkube", 0.018, 95 << 20),
            ("broker", 0.21, 720 << 20),
            ("autoscaler", 0.006, 52 << 20),
        ):
            yield recorder.UsageSample(
                at=instant(epoch, second),
                source=source,
                component=component,
                cpu_seconds=round(2 + share * second, 3),
                memory_bytes=memory,
            )
    final = [(p, int(end), int(end)) for p, end in enumerate(ends[-1])]
    at = instant(epoch, story.end_seconds + 2)
    yield recorder.LagSample(at=at, source=source, partitions=list(final))
    for second in range(0, int(story.end_seconds) + 1, 10):
        yield recorder.GroupMembers(at=instant(epoch, second), source=source, members=[])
    for at, spec, current, ready in tables(story, outcome, epoch)["replicas"]:
        yield recorder.ReplicaSample(at=at, source=source, spec=spec, current=current, ready=ready)
        members, state = ready, "STABLE"
        surplus = max(0, members - story.partitions)
        yield recorder.GroupSample(
            at=at, source=source, state=state, members=members, members_without_partitions=surplus
        )
    for pod in outcome.pods:
        yield from _pod_seen(pod, story, epoch, source)


def _pod_seen(pod: Pod, story: SpikeStory, epoch: int, source: str) -> Iterator[record.Record]:
    created, started = instant(epoch, pod.created), instant(epoch, pod.created + 0.2)
    ready = instant(epoch, pod.created + story.ready_after_seconds)
    deleted = None if pod.sigterm is None else instant(epoch, pod.sigterm - 0.02)
    gone = None if pod.gone is None else instant(epoch, pod.gone)
    stages: list[tuple[int | None, int | None, int | None, int | None]] = [
        (created, None, None, None),
        (ready, ready, None, None),
        (deleted, ready, deleted, None),
        (gone, ready, deleted, gone),
    ]
    for at, ready_at, deleted_at, gone_at in stages:
        if at is not None:
            yield recorder.PodSeen(
                at=at + 5_000_000,
                source=source,
                pod=pod.name,
                created_at=created,
                started_at=started if ready_at else None,
                ready_at=ready_at,
                deleted_at=deleted_at,
                gone_at=gone_at,
                exit_code=0 if gone_at else None,
                exit_reason="Completed" if gone_at else "",
                precision_ns=1_000_000,
            )


def _autoscaler(story: SpikeStory, outcome: Outcome, epoch: int) -> Iterator[record.Record]:
    source, metric = "autoscaler", "s0-kafka-events"
    for second, lag, before, after in outcome.syncs:
        at = instant(epoch, second)
        capped = min(lag, story.partitions * story.lag_threshold)
        proposal = max(story.floor, min(story.ceiling, -(-capped // story.lag_threshold)))
        yield autoscaler.HpaSync(
            at=at,
            source=source,
            hpa="keda-hpa-consumer",
            spec_replicas=before,
            status_replicas=before,
            metrics={metric: float(capped)},
            proposal=proposal,
            desired=after,
            able_to_scale="True SucceededRescale" if after != before else "True ReadyForNewScale",
            scaling_limited="True ScaleUpLimit" if after > before else "False DesiredWithinRange",
            scaling_active="True ValidMetricFound",
        )
        if after != before:
            yield autoscaler.Scaled(
                at=at + 8_000_000,
                source=source,
                target="consumer",
                replicas_before=before,
                replicas_after=after,
                by="hpa",
                reason=f"external metric {metric} "
                + ("above target" if after > before else "below target"),
            )
    for index in range(int(story.end_seconds / 5)):
        at = instant(epoch, 1.7 + 5 * index)
        lag = float(_lag_at(story, outcome, int(1.7 + 5 * index)))
        yield autoscaler.KedaPoll(
            at=at, source=source, scaled_object="consumer", metrics={metric: lag}, is_active=lag > 0
        )


def _lag_at(story: SpikeStory, outcome: Outcome, second: int) -> int:
    ends, committed = end_by_second(story, outcome), committed_by_second(story, outcome)
    return int((ends[second] - committed[second]).sum())
