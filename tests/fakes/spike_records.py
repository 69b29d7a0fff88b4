"""Telemetry records of a simulated run, as producer, pods, recorder and autoscaler send them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lagbench.core.telemetry import records_of_programs as of_programs
from lagbench.core.telemetry import records_of_recorder as recorder
from lagbench.core.telemetry.records_of_programs import Record
from tests.fakes.spike_simulation import STEPS_PER_SECOND, Outcome, Pod
from tests.fakes.spike_tables import replicas

PHASES = (  # name, from, to
    ("bench_up", -11.5, -11.0),
    ("apply_policy", -10.5, -9.5),
    ("run_consumers", -9.0, -4.0),
    ("inject_spike", -1.0, 300.2),
    ("await_drained", 300.3, 302.4),
    ("await_settled", 302.5, 303.5),
    ("fence_run", 303.6, 304.6),
)
USAGE = (  # component, cores, memory
    ("recorder", 0.012, 48 << 20),
    ("localkube", 0.018, 95 << 20),
    ("broker", 0.21, 720 << 20),
    ("autoscaler", 0.006, 52 << 20),
)


def records(out: Outcome) -> list[Record]:
    """Return all records of the run, ordered by instant."""
    of_pods = (_pod(pod, out) for pod in out.pods)
    parts = chain(_phases(out), _producer(out), *of_pods, _recorder(out), _autoscaler(out))
    return sorted(parts, key=lambda record: record.at)


def _phases(out: Outcome) -> Iterator[Record]:
    for name, started, finished in PHASES:
        for second, state in ((started, "started"), (finished, "finished")):
            at = out.at(second)
            yield of_programs.Phase(at=at, source="dag", name=name, state=state)  # type: ignore[arg-type]


def _producer(out: Outcome) -> Iterator[Record]:
    story, source, total = out.story, "producer-0", int(out.ends[-1].sum())
    yield of_programs.StreamStarted(
        at=out.epoch - 20_000_000,
        source=source,
        stream_started_at=out.epoch,
        seed=1,
        profile="step",
        planned_total=total,
        planned_seconds=story.end_seconds,
        partitions=story.partitions,
    )
    base, high = story.base_rate, story.base_rate * story.spike_mult
    start, end = story.before_seconds, story.before_seconds + story.hold_seconds
    up = of_programs.LoadStep(
        at=out.at(start), source=source, step="spike_start", rate_before=base, rate_after=high
    )
    down = of_programs.LoadStep(
        at=out.at(end), source=source, step="spike_end", rate_before=high, rate_after=base
    )
    yield from (up, down)
    for second, ends in enumerate(out.ends):
        sent = int(ends.sum())
        yield of_programs.ProducerProgress(
            at=out.at(second + 0.01),
            source=source,
            planned=sent,
            sent=sent,
            acked=sent,
            failed=0,
            lateness_p50_ms=2.1,
            lateness_p99_ms=5.2,
            lateness_max_ms=9.0,
        )
    yield of_programs.StreamFinished(
        at=out.at(story.end_seconds + 0.1),
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


def _pod(pod: Pod, out: Outcome) -> Iterator[Record]:
    name, member, cost_ms = pod.name, f"member-{pod.name}", out.story.process_ms
    yield of_programs.PodStarted(
        at=out.at(pod.created + 0.7),
        source=name,
        process_started_at=out.at(pod.created + 0.25),
        balancer="cooperative-sticky",
        concurrency=1,
        process_ms=cost_ms,
        instance_id=None,
    )
    yield of_programs.GroupJoined(at=out.at(pod.joined), source=name, member_id=member)
    own = [event for event in out.events if event.pod == name]
    for number, event in enumerate(own, start=1):
        shared = {
            "at": out.at(event.second),
            "source": name,
            "member_id": member,
            "partitions": event.partitions,
            "owned": event.owned,
            "rebalance": number,
        }
        if event.kind == "assigned":
            yield of_programs.PartitionsAssigned(**shared, is_incremental=True)
        else:
            yield of_programs.PartitionsRevoked(
                **shared, is_lost=False, in_flight=1, finish_seconds=0.012
            )
    if pod.first_done is not None:
        at = out.at(pod.first_done + cost_ms / 1000)
        yield of_programs.FirstRecordDone(at=at, source=name, partition=0, offset=0)
    first = max(0, int(pod.joined) + 1)
    for second in range(first, int(pod.sigterm or out.story.end_seconds) + 1):
        count = _processed(pod, out, second + 1) - _processed(pod, out, second)
        owned = [event.owned for event in own if event.second <= second]
        yield of_programs.ConsumerProgress(
            at=out.at(second + 0.99),
            source=name,
            processed_total=_processed(pod, out, second + 1),
            consume_rate=float(count),
            inflight=1 if count else 0,
            queued=0,
            assigned_partitions=len(owned[-1]) if owned else 0,
            cpu_seconds=round(0.4 + 0.03 * (second - first), 3),
        )
    if pod.sigterm is not None and pod.gone is not None:
        at = out.at(pod.sigterm)
        yield of_programs.SigtermReceived(at=at, source=name, queued=0, in_flight=1)
        yield of_programs.PodStopped(
            at=out.at(pod.gone - 0.1),
            source=name,
            reason="sigterm",
            is_graceful=True,
            abandoned=0,
            processed_total=_processed(pod, out, pod.sigterm + 1),
        )


def _processed(pod: Pod, out: Outcome, until: float) -> int:
    steps = out.done[: max(0, round(until * STEPS_PER_SECOND))]
    return sum(sum(step.get(pod.name, {}).values()) for step in steps)


def _recorder(out: Outcome) -> Iterator[Record]:
    source, story = "recorder-0", out.story
    for second, (ends, committed) in enumerate(zip(out.ends, out.committed, strict=True)):
        at = out.at(second)
        rows = list(zip(range(story.partitions), ends.tolist(), committed.tolist(), strict=True))
        yield recorder.LagSample(at=at, source=source, partitions=rows)
        for component, cores, memory in USAGE:
            yield recorder.UsageSample(
                at=at,
                source=source,
                component=component,
                cpu_seconds=round(2 + cores * second, 3),
                memory_bytes=memory,
            )
        if second % 10 == 0:
            yield recorder.GroupMembers(at=at, source=source, members=[])
    final = [(number, end, end) for number, end in enumerate(out.ends[-1].tolist())]
    at = out.at(story.end_seconds + 2)
    yield recorder.LagSample(at=at, source=source, partitions=final)
    for at, spec, current, ready in replicas(out):
        yield recorder.ReplicaSample(at=at, source=source, spec=spec, current=current, ready=ready)
        yield recorder.GroupSample(
            at=at,
            source=source,
            state="STABLE",
            members=ready,
            members_without_partitions=max(0, ready - story.partitions),
        )
    for pod in out.pods:
        yield from _pod_seen(pod, out, source)


def _pod_seen(pod: Pod, out: Outcome, source: str) -> Iterator[Record]:
    created, started = out.at(pod.created), out.at(pod.created + 0.2)
    ready = out.at(pod.created + out.story.ready_after_seconds)
    deleted = None if pod.sigterm is None else out.at(pod.sigterm - 0.02)
    gone = None if pod.gone is None else out.at(pod.gone)
    for number, at in enumerate((created, ready, deleted, gone)):
        if at is not None:
            yield recorder.PodSeen(
                at=at + 5_000_000,
                source=source,
                pod=pod.name,
                created_at=created,
                started_at=started if number >= 1 else None,
                ready_at=ready if number >= 1 else None,
                deleted_at=deleted if number >= 2 else None,
                gone_at=gone if number == 3 else None,
                exit_code=0 if number == 3 else None,
                exit_reason="Completed" if number == 3 else "",
                precision_ns=1_000_000,
            )


def _autoscaler(out: Outcome) -> Iterator[Record]:
    source, metric, story = "autoscaler", "s0-kafka-events", out.story
    for second, lag, before, after in out.syncs:
        at = out.at(second)
        capped = min(lag, story.partitions * story.lag_threshold)
        yield of_programs.HpaSync(
            at=at,
            source=source,
            hpa="keda-hpa-consumer",
            spec_replicas=before,
            status_replicas=before,
            metrics={metric: float(capped)},
            proposal=story.proposal(lag),
            desired=after,
            able_to_scale="True SucceededRescale" if after != before else "True ReadyForNewScale",
            scaling_limited="True ScaleUpLimit" if after > before else "False DesiredWithinRange",
            scaling_active="True ValidMetricFound",
        )
        if after != before:
            where = "above" if after > before else "below"
            yield of_programs.Scaled(
                at=at + 8_000_000,
                source=source,
                target="consumer",
                replicas_before=before,
                replicas_after=after,
                by="hpa",
                reason=f"external metric {metric} {where} target",
            )
    for index in range(int(story.end_seconds / 5)):
        second = 1.7 + 5 * index
        lag = int((out.ends - out.committed)[int(second)].sum())
        yield of_programs.KedaPoll(
            at=out.at(second),
            source=source,
            scaled_object="consumer",
            metrics={metric: float(lag)},
            is_active=lag > 0,
        )
