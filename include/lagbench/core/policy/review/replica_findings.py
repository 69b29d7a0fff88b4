"""Which replica counts a policy reaches, and which it cannot: cap, tolerance, limits, divisors."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from lagbench.core.keda.loop import divisors
from lagbench.core.keda.object import KafkaTrigger, Trigger
from lagbench.core.policy.limits import PolicyLimits, policy_limits
from lagbench.core.policy.review.climb import climb
from lagbench.core.policy.review.finding import Finding, Subject, shown

_MAX = "spec.maxReplicaCount"


def replica_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what the counts of this policy lead to."""
    spec, written = subject.spec, subject.written
    if "minReplicaCount" not in written and not spec.has_only_resources:
        yield Finding(
            "warning",
            "min-absent",
            "spec.minReplicaCount",
            "(absent)",
            "counts as 0: KEDA stops all pods when no trigger is active",
            "minReplicaCount: 1 or more, or 0 if that is intended",
        )
    if "maxReplicaCount" not in written:
        yield Finding(
            "warning",
            "max-absent",
            _MAX,
            "(absent)",
            "counts as 100 replicas",
            "maxReplicaCount: the number of partitions",
        )
    yield from _idle(subject)
    partitions = subject.context.partitions
    if partitions is None:
        return
    limits = policy_limits(subject.manifest)
    empty = [one for one in limits.of_triggers if not one.counted(partitions)]
    yield from (_keeps_none(subject, one.index, partitions) for one in empty)
    if empty:
        return
    counted = limits.counted_partitions(partitions)
    if len(spec.triggers) == 1 and _distributes_evenly(spec.triggers[0]):
        yield _divisors_only(subject, counted)
    else:
        yield from _partitions(subject, limits, partitions, counted)


def _keeps_none(subject: Subject, index: int, partitions: int) -> Finding:
    return Finding(
        "broken",
        "limitation-keeps-none",
        f"spec.triggers[{index}].metadata.partitionLimitation",
        shown(subject.written["triggers"][index]["metadata"]["partitionLimitation"]),
        f"keeps none of the {partitions} partitions: every poll fails",
        f"partitions from 0 to {partitions - 1}, such as 0-{partitions - 1}",
    )


def _distributes_evenly(trigger: Trigger) -> bool:
    kafka = trigger.parameters
    return isinstance(kafka, KafkaTrigger) and kafka.ensure_even_distribution_of_partitions


def _idle(subject: Subject) -> Iterator[Finding]:
    spec = subject.spec
    if spec.idle_replica_count:
        yield Finding(
            "warning",
            "idle-flaps",
            "spec.idleReplicaCount",
            str(spec.idle_replica_count),
            f"the HPA sets {spec.floor} at its next sync, because less is below its minimum, and "
            f"KEDA sets {spec.idle_replica_count} at its next poll: the pods start and stop for "
            "ever",
            "idleReplicaCount: 0, at which the HPA does not act",
        )


def _partitions(
    subject: Subject, limits: PolicyLimits, partitions: int, counted: int
) -> Iterator[Finding]:
    ceiling = limits.ceiling_replicas
    if not limits.reads_load or limits.lag_threshold_records is None or limits.has_formula:
        return
    yield from _cron_over_partitions(limits, counted)
    most = limits.most_requested(partitions)
    if ceiling > counted and most is None:
        unlimited = [one for one in limits.of_triggers if one.most(partitions) is None]
        names = ", ".join(f"{one.type} (trigger {one.index})" for one in unlimited)
        yield Finding(
            "warning",
            "max-over-partitions",
            _MAX,
            str(ceiling),
            f"up to {ceiling - counted} replicas get none of the {counted} partitions and add no "
            f"throughput; each costs a rebalance when it joins and when it leaves. {names} is not "
            "capped at the partitions",
            f"maxReplicaCount: {counted}"
            + ("" if limits.is_capped_at_partitions else ", and allowIdleConsumers left out"),
        )
    elif most is not None and ceiling > (most if most > counted + 1 else counted):
        happens = f"the metric is capped at the partitions: more than {most} are never requested"
        if most > counted + limits.leaks_one_replica:
            happens = f"more than the {most} of the hours are never requested"
        elif limits.leaks_one_replica:
            happens += (
                f", and the {most}th, which gets no partition, is: KEDA's cap divides whole "
                "numbers and the HPA rounds the rest up"
            )
        yield Finding(
            "warning",
            "max-over-partitions",
            _MAX,
            str(ceiling),
            happens,
            f"maxReplicaCount: {counted}",
        )
    if limits.is_capped_at_partitions:
        yield from _sticking(subject, counted)


def _cron_over_partitions(limits: PolicyLimits, counted: int) -> Iterator[Finding]:
    for one in limits.of_triggers:
        asked = min(one.fixed or 0, limits.ceiling_replicas)
        if asked > counted:
            yield Finding(
                "warning",
                "cron-over-partitions",
                f"spec.triggers[{one.index}].metadata.desiredReplicas",
                str(one.fixed),
                f"in its hours {asked} pods run, and {asked - counted} of them get none of the "
                f"{counted} partitions: they are idle",
                f"at most {counted}",
            )


def _sticking(subject: Subject, partitions: int) -> Iterator[Finding]:
    """Yield the counts at which the HPA takes the cap for near enough."""
    floor = max(subject.spec.floor, 1)
    tolerance = policy_limits(subject.manifest).flags.tolerance_in_force
    top = min(partitions, subject.spec.max_replica_count)  # the ceiling cuts off the rest
    stuck = [n for n in range(floor, top) if partitions / n <= 1 + tolerance]
    path = climb(subject.manifest, subject.spec, wish=partitions)
    if not stuck:
        return
    counts = ", ".join(map(str, stuck))
    least = ceil(partitions / (1 + tolerance))
    happens = (
        f"{counts} of {partitions} stay there under any lag: {partitions} wanted is within the "
        f"HPA's tolerance of {100 * tolerance:g} % from {least} on"
    )
    if path and path[-1] in stuck:
        way = " → ".join(map(str, path))
        yield Finding(
            "warning",
            "cap-sticks",
            _MAX,
            str(subject.spec.max_replica_count),
            f"{happens}; this policy climbs {way}, so {top} is never reached",
            f"steps that jump over {counts} (behavior.scaleUp.policies), or {path[-1]} pods "
            "that suffice",
        )
    elif path and path[-1] > stuck[-1]:
        way = " → ".join(map(str, path))
        yield Finding(
            "note",
            "cap-sticks",
            _MAX,
            str(subject.spec.max_replica_count),
            f"{happens}; under full lag this policy climbs {way} and jumps over them",
        )


def _divisors_only(subject: Subject, partitions: int) -> Finding:
    counts = [n for n in divisors(partitions) if n <= subject.spec.max_replica_count]
    return Finding(
        "note",
        "even-counts",
        "spec.triggers[0].metadata.ensureEvenDistributionOfPartitions",
        "true",
        f"with {partitions} partitions only {', '.join(map(str, counts))} replicas are "
        "requested; limits in behavior may stop between them",
    )
