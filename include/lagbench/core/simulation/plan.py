"""Compute the needs of a cell before it runs: totals, pods, limits that it meets, disk, cores.

Arithmetic on the scenario and the policy's limits; the simulator predicts the course. The cores are
a rule of thumb: processor time of one message falls with the rate, because batches grow, and that
the cost of a pod and of the broker grows with the square root of their rate is an assumption. The
work of ``consumer.cpu_ms`` comes on top, and is all that is known of a user's own consumer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lagbench.core.measures.model import Reals
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits, loop_gain, standing_lag_seconds
from lagbench.core.scenario.actions import RollingRestart, rejected_move
from lagbench.core.scenario.event_stream import partition_shares
from lagbench.core.scenario.offered_load import Spike, offered_load
from lagbench.core.scenario.profiles import TraceProfile
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.scenario.stream_tail import Tail, spikes_of, tail_of, topic_shares
from lagbench.core.simulation.spark_needs import spark_cores, spark_mebibytes, spark_warnings

# Bytes of broker log per event, lz4, 12 partitions: 146 at 60,000/s, 156 at 6,000/s (measured);
# 208 at 600/s, where a batch holds one record, but such a stream is small anyway.
EVENT_LOG_BYTES = 160

# Key, header with identity and a run's id of up to 60 letters, and the frame of a record.
IDENTITY_LOG_BYTES = 130

# Six columns of 8 B in the ledger, and the Arrow header of a batch spread over its records.
LEDGER_BYTES = 60

_TOO_FAST = 50_000  # messages a second of one pod

# With consumer.work waited (python -m tests.benchmarks --only work): 4 and 2 ms took 0.13 ms more,
# 1 ms took 0.19 ms more, and the highest rate was 53,116/s, with 64 messages of 1 ms at once.
_WAITS_LATE_MS = 0.15
_MOST_WAITED = 53_000
_NEAR_NOMINAL = 0.95
FULL_FLOOR = 0.9
"""From this use of the floor on by the base rate little keeps the replicas from changing."""

# The tables of a run folder (Parquet): 9 columns of an event and 10 of its processing.
TABLE_BYTES = 60


@dataclass(frozen=True, slots=True)
class Growth:
    """From ``second`` of the stream on there are ``partitions``."""

    second: float
    partitions: int
    hottest_partition: int
    hottest_share: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The prediction for one cell; None where the question does not arise."""

    messages: int
    """Of the planned window; with the tail there are up to ``most_messages``."""
    most_messages: int
    tail: Tail | None
    stream_seconds: float
    base_rate: float
    peak_rate: float
    spikes: tuple[Spike, ...]
    pod_rate: float
    """Messages per second that one pod can process; infinite if a message costs nothing."""
    cpu_ms: float
    """CPU time that the work on one message takes."""
    is_own: bool
    """The pods run the user's code, whose cost is known by ``cpu_ms`` alone."""
    partitions: int
    min_replicas: int
    max_replicas: int
    useful_replicas: int
    """The most pods that can have a partition, also after the topic has grown."""
    reachable_replicas: int
    """Those of them that the policy can request, without what CPU and memory add."""
    growths: tuple[Growth, ...]
    sticking_replicas: tuple[int, ...]
    """Counts below the cap at which the HPA's tolerance stops a scale-out that arrives there."""
    counted_partitions: int
    """At which a capped trigger on lag stops: those that partitionLimitation keeps."""
    leaks_one_replica: bool
    """KEDA's cap divides whole numbers: just above it the HPA rounds up to one replica more."""
    loop_gain: float | None
    """Lag that one pod works off between two syncs of the HPA, in lagThresholds."""
    standing_lag_seconds: float | None
    """Time lag at which a lag trigger comes to rest between floor and ceiling, at any rate."""
    hottest_partition: int
    hottest_share: float
    disk_bytes: int
    memory_mebibytes: int | None
    """Of Spark's pods at maxReplicaCount, two JVMs a worker; None: the consumer is a stand-in."""
    spark_cores: float | None
    """That Spark's pods keep busy at maxReplicaCount; None: the consumer is a stand-in."""
    warnings: tuple[str, ...] = ()

    @property
    def pods_needed_at_base(self) -> int:
        """The pods that keep up with the base rate."""
        return max(1, math.ceil(self.base_rate / self.pod_rate))

    @property
    def pods_needed_at_peak(self) -> int:
        """The pods that keep up with the peak."""
        return max(1, math.ceil(self.peak_rate / self.pod_rate))

    @property
    def capacity_per_second(self) -> float:
        """The rate of the replicas that the policy can request."""
        return self.reachable_replicas * self.pod_rate

    @property
    def is_saturated(self) -> bool:
        """Return whether the peak is all that they can do, or more."""
        return self.peak_rate >= self.capacity_per_second

    @property
    def is_behind(self) -> bool:
        """Return whether lag builds up at the peak, so that each fetch finds full batches."""
        return self.peak_rate > self.capacity_per_second

    @property
    def hottest_rate(self) -> float:
        """Peak rate of the hottest partition."""
        return self.hottest_share * self.peak_rate

    @property
    def is_skew_limited(self) -> bool:
        """Return whether the hottest partition gets more than its one pod can do."""
        return self.hottest_rate > self.pod_rate


def plan_cell(scenario: Scenario, policy: Policy) -> Plan:
    """Return the prediction for a scenario under a policy."""
    limits = policy.limits
    load = offered_load(scenario.profile)
    tail = tail_of(scenario, started_replicas=limits.started_replicas)
    whole_load = load if tail is None else tail.after(load)
    consumer, partitions = scenario.consumer, scenario.partitions
    pod_rate = consumer.pod_rate_per_second or math.inf
    hottest, hottest_share = _hottest(topic_shares(scenario))
    growths = [
        Growth(at, count, *_hottest(partition_shares(scenario.keys, count, scenario.seed)))
        for at, count in scenario.partition_plan.growths
    ]
    most = scenario.partition_plan.last
    # A policy on CPU is taken to stay at its floor; the simulator plays what its pods' work costs.
    reachable = min(limits.reachable_replicas, most)
    requested = limits.most_requested(most) if limits.is_capped_at_partitions else None
    if requested is not None:
        reachable = min(reachable, max(requested, limits.started_replicas))
    counted = limits.counted_partitions(partitions)
    payload, log_bytes = scenario.payload, EVENT_LOG_BYTES
    if payload is not None and payload.mean_bytes is not None:  # it may not compress
        log_bytes = math.ceil(payload.mean_bytes) + IDENTITY_LOG_BYTES
    draft = Plan(
        messages=load.total,
        most_messages=whole_load.total,
        tail=tail,
        stream_seconds=load.duration_seconds,
        base_rate=load.base_rate,
        peak_rate=load.peak_rate,
        spikes=spikes_of(scenario, started_replicas=limits.started_replicas),
        pod_rate=pod_rate,
        cpu_ms=consumer.cpu_ms,
        is_own=consumer.kind == "own",
        partitions=partitions,
        min_replicas=limits.started_replicas,
        max_replicas=limits.ceiling_replicas,
        useful_replicas=min(limits.ceiling_replicas, most),
        reachable_replicas=reachable,
        growths=tuple(growths),
        sticking_replicas=_sticking(limits, counted),
        counted_partitions=counted,
        leaks_one_replica=limits.leaks_one_replica and limits.ceiling_replicas > counted,
        loop_gain=loop_gain(pod_rate, limits),
        standing_lag_seconds=standing_lag_seconds(pod_rate, limits),
        hottest_partition=hottest,
        hottest_share=hottest_share,
        disk_bytes=whole_load.total * (log_bytes + LEDGER_BYTES + TABLE_BYTES),
        memory_mebibytes=spark_mebibytes(consumer, limits.ceiling_replicas),
        spark_cores=spark_cores(consumer, limits.ceiling_replicas, most),
    )
    return replace(draft, warnings=tuple(_warnings(draft, limits, scenario)))


def _hottest(shares: Reals) -> tuple[int, float]:
    return int(np.argmax(shares)), float(shares.max())


def disk_bytes(groups: Sequence[Plan]) -> int:
    """Return the most bytes of a run: one log of events, and ledger and tables of each group."""
    first, *others = groups
    return first.disk_bytes + sum(
        plan.most_messages * (LEDGER_BYTES + TABLE_BYTES) for plan in others
    )


def table_bytes(groups: Sequence[Plan]) -> int:
    """Return the most bytes of a run's tables, which stay in its run folder."""
    return sum(plan.most_messages * TABLE_BYTES for plan in groups)


def _sticking(limits: PolicyLimits, partitions: int) -> tuple[int, ...]:
    """Return every n below the cap with cap / n within the tolerance (keda issues 4791, 2908)."""
    if limits.scales_at_records is None or not limits.is_capped_at_partitions:
        return ()
    low = max(limits.started_replicas, 1)
    top = min(partitions, limits.ceiling_replicas)  # the ceiling cuts off the rest
    tolerated = 1 + limits.tolerances.up
    return tuple(n for n in range(low, top) if partitions / n <= tolerated)


def _warnings(plan: Plan, limits: PolicyLimits, scenario: Scenario) -> Iterator[str]:
    """Yield what a person should know before starting."""
    if not limits.reads_load:
        count = plan.reachable_replicas
        by = "" if count == plan.min_replicas else "its hours request more, and "
        yield f"the policy does not read lag: {by}the capacity is that of its {count} replicas"
    if plan.max_replicas > plan.partitions:
        yield (
            f"maxReplicaCount {plan.max_replicas} is above the {plan.partitions} partitions: up to "
            f"{plan.max_replicas - plan.partitions} replicas get no partition"
        )
    for one in plan.growths:
        yield (
            f"from second {one.second:g} on there are {one.partitions} partitions: the hottest, "
            f"{one.hottest_partition}, gets {one.hottest_share:.1%} of what comes from then on; "
            "keys that move lose their order across the growth"
        )
    if plan.leaks_one_replica:
        yield (
            f"KEDA caps at {plan.counted_partitions} replicas with an integer division: expect "
            f"{plan.counted_partitions + 1} when lag is just above the cap"
        )
    if plan.sticking_replicas:
        yield (
            f"a scale-out that reaches {', '.join(map(str, plan.sticking_replicas))} replicas "
            f"stops there: {plan.counted_partitions} wanted is within the HPA's tolerance"
        )
    yield from _of_load(plan, limits, scenario)
    yield from _at_rest(plan, limits, scenario)
    yield from _of_moves(scenario)
    yield from spark_warnings(
        scenario.consumer,
        floor=plan.min_replicas,
        ceiling=plan.max_replicas,
        partitions=plan.partitions,
    )


def skew_text(scenario: Scenario) -> str:
    """Say which field skews the partitions; empty: the samples of a payload do."""
    keys, payload = scenario.keys, scenario.payload
    if not keys.zipf_s or (payload is not None and payload.partition_shares is not None):
        return ""
    default = "" if "zipf_s" in keys.model_fields_set else ", the default"
    return f" (keys.zipf_s {keys.zipf_s:g}{default}; 0 is even)"


def _of_load(plan: Plan, limits: PolicyLimits, scenario: Scenario) -> Iterator[str]:
    needed, floor, profile = plan.pods_needed_at_base, plan.min_replicas, scenario.profile
    enough = max(1, math.ceil(plan.base_rate / plan.pod_rate / FULL_FLOOR))
    if needed > floor:
        text = f"the base rate needs {needed} pods, the floor is {floor}"
        if plan.spikes:
            has_hours = any(one.fixed is not None for one in limits.of_triggers)
            text += f": {'outside of the hours of cron ' if has_hours else ''}the group scales "
            text += "before the spike, and is not at rest when it comes"
        yield f"{text}; raise the floor to {enough}"
    elif enough > floor:
        use = plan.base_rate / plan.pod_rate / floor
        yield (
            f"the base rate is {use:.0%} of what the floor of {floor} pods does: slightly slower "
            f"pods make the replicas flip; raise the floor to {enough}"
        )
    if plan.is_saturated:
        yield (
            f"the peak of {plan.peak_rate:,.0f}/s is all or more than the pods can do "
            f"({plan.capacity_per_second:,.0f}/s): lag does not fall before the spike ends"
        )
    if plan.is_skew_limited:
        yield (
            f"partition {plan.hottest_partition} gets {plan.hottest_share:.1%} of the messages, "
            f"{plan.hottest_rate:,.0f}/s at the peak, and one pod does {plan.pod_rate:,.0f}/s: "
            f"its drain, not the replica count, is the limit{skew_text(scenario)}"
        )
    if plan.spikes and plan.base_rate >= plan.capacity_per_second:
        yield "the backlog never drains: the base rate is all or more than the pods can do"
    if isinstance(profile, TraceProfile) and not any(p.second % 1000 for p in profile.points):
        text = "all times of the trace are multiples of 1,000 s: its column second is in seconds"
        yield f"{text}, are these milliseconds?"
    yield from _of_waits(scenario.consumer)
    if _TOO_FAST <= plan.pod_rate < math.inf:
        yield f"one pod does {plan.pod_rate:,.0f}/s: is process_ms in milliseconds?"


def _of_waits(consumer: ConsumerSettings) -> Iterator[str]:
    """Say what a pod really does that waits for each message, if it is far from nominal."""
    if consumer.work != "waited":
        return
    nominal = consumer.pod_rate_per_second or math.inf
    rate = consumer.concurrency * 1000 / (consumer.message_ms + _WAITS_LATE_MS)
    rate = min(rate, _MOST_WAITED)
    if rate < _NEAR_NOMINAL * nominal:
        yield (
            f"with consumer.work waited one pod does about {rate:,.0f}/s of {nominal:,.0f}/s, less "
            f"on a busy machine: a wait takes {_WAITS_LATE_MS:g} ms more than it should, and "
            f"{_MOST_WAITED:,}/s is the most that was measured"
        )


def _of_moves(scenario: Scenario) -> Iterator[str]:
    """Say which rolling restarts end only when no pod of the old balancer is left."""
    before = scenario.consumer.balancer
    for number, action in enumerate(scenario.actions):
        if not isinstance(action, RollingRestart) or action.balancer is None:
            continue
        why = rejected_move(before, action.balancer)
        if why is not None and not action.at_once:
            yield (
                f"actions.{number}: the broker rejects {action.balancer} in a live group of "
                f"{before} ({why}): set at_once"
            )
        before = action.balancer


def _at_rest(plan: Plan, limits: PolicyLimits, scenario: Scenario) -> Iterator[str]:
    """Warn of a threshold below the lag that a consumer shows when all is well."""
    if limits.scales_at_records is None:
        return
    consumer, tolerated = scenario.consumer, 1 + limits.tolerances.up
    held = limits.scales_at_records * plan.min_replicas * tolerated
    seconds = consumer.lag_at_rest_seconds(plan.base_rate, plan.min_replicas)
    waiting = plan.base_rate * seconds
    if not held < waiting < math.inf:
        return
    if consumer.kind == "spark":
        yield (
            f"published lag is a saw: {plan.base_rate:,.0f}/s for up to {seconds:.1f} s of a batch "
            f"and its trigger are {waiting:,.0f} messages, more than {plan.min_replicas} workers "
            f"may hold ({held:,.0f}): expect flaps without a spike"
        )
    else:
        yield (
            f"{waiting:,.0f} messages, {seconds:g} s of the base rate, wait between two commits, "
            f"and {plan.min_replicas} replicas may hold {held:,.0f}: expect scaling on noise"
        )


# quick_spike: 12 pods at 500/s took 0.037 cores each, 0.009 of them at rest.
_POD_AT_REST = 0.009
_POD_AT_500 = 0.028

# quick_spike: broker 0.20 cores at rest and 0.38 at 6,000/s.
_BROKER_AT_REST = 0.20
_BROKER_AT_6000 = 0.18

# lab_full_spike, in cores of the reference machine: 0.03 to 0.04 a pod and 0.28 to 0.31 for the
# broker while lag builds up, 0.02 and 0.30 while 24 pods drain it.
_POD_BEHIND = 0.04
_BROKER_BEHIND = 0.31

# Flat out the producer sends 200,000/s and more on one core.
_PRODUCER_PER_MESSAGE = 1 / 200_000

# localkube 0.015, recorder 0.01, autoscaler, and the Airflow that waits for the run.
_OTHERS = 0.1
_RECORDER = 0.01


def cores_needed(plan: Plan, *others: Plan) -> float:
    """Return the cores that the bench and its pods keep busy at the peak of the load."""
    consumers, following = _consumer_cores(plan), _BROKER_AT_6000 * math.sqrt(plan.peak_rate / 6000)
    broker = _BROKER_AT_REST + following
    if plan.is_behind:
        broker = min(broker, _BROKER_BEHIND)
    for other in others:
        consumers += _consumer_cores(other) + _RECORDER
        broker += following
    return consumers + broker + plan.peak_rate * _PRODUCER_PER_MESSAGE + _OTHERS


def _consumer_cores(plan: Plan) -> float:
    pods = min(plan.useful_replicas, plan.pods_needed_at_peak)
    done = min(plan.peak_rate, plan.capacity_per_second)
    if plan.spark_cores is not None:
        return plan.spark_cores + done * plan.cpu_ms / 1000
    if plan.is_own:
        return done * plan.cpu_ms / 1000
    pod = _POD_AT_REST + _POD_AT_500 * math.sqrt(done / pods / 500)
    if plan.is_behind:
        pod = min(pod, _POD_BEHIND)
    return pods * pod + done * plan.cpu_ms / 1000


def cannot_carry(plan: Plan, *others: Plan, cores: int, speed: float = 1.0) -> str:
    """Say what a machine lacks for the groups of a cell; empty: nothing."""
    needed = cores_needed(plan, *others) / speed
    if needed <= cores:
        return ""
    own = " beside what your own code takes" if plan.is_own and not plan.cpu_ms else ""
    peak = f"at the peak of {plan.peak_rate:,.0f}/s{own}"
    return (
        f"needs about {needed:.1f} cores of this speed {peak}, here are {cores}: "
        "expect an invalid run (a late generator) or a dip that the bench causes"
    )
