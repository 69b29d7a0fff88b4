"""Determine the replica bounds of a policy, and the lag that one replica may hold under it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lag_scaler.keda_values import go_boolean
from lag_scaler.rule import LAG_SCALER_DEFAULT_THRESHOLD
from lagbench.core.hpa.controller_flags import ControllerFlags, Tolerances, controller_flags
from lagbench.core.hpa.hpa_object import HpaSpec, parse_behavior
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger, ForeignTrigger
from lagbench.errors import WrongInput

LAG_THRESHOLD_ANNOTATION = "lagbench.io/lag-threshold"
PartitionCap = Literal["none", "keda", "exact"]

_KEDAS_DEFAULT = "KEDA's default lagThreshold {:g}"

_LAG_SCALERS_DEFAULT = (
    float(LAG_SCALER_DEFAULT_THRESHOLD),
    f"the lag scaler's default lagThreshold {LAG_SCALER_DEFAULT_THRESHOLD:g}",
)


@dataclass(frozen=True, slots=True)
class TriggerLimit:
    """From which lag on one trigger scales, and the replicas that it requests at most.

    ``lag_target``: its threshold in records of lag, and the rule that gave it; None: it compares
    none. ``kept``: the partitions whose lag counts; None: all. ``fixed``: the number that a cron
    trigger requests.
    """

    index: int
    type: str
    lag_target: tuple[float, str] | None = None
    is_of_group: bool = False  # the target is held against the whole metric, not its share a pod
    cap: PartitionCap | None = None  # None: the trigger does not follow lag
    leaks_one_replica: bool = False
    kept: tuple[int, ...] | None = None
    fixed: int | None = None

    def counted(self, partitions: int) -> int:
        """Return how many of the topic's partitions count."""
        if self.kept is None:
            return partitions
        return sum(0 <= partition < partitions for partition in {*self.kept})

    def most(self, partitions: int) -> int | None:
        """Return the most replicas; None: there is no limit."""
        if self.cap in (None, "none"):
            return self.fixed
        return self.counted(partitions) + self.leaks_one_replica


@dataclass(frozen=True, slots=True)
class PolicyLimits:
    """Replica bounds and the lag threshold (per replica) with the rule that gave it.

    ``partition_cap``: the part that caps the metric at one replica per partition: KEDA's kafka
    trigger, whose integer division allows one more; the lag scaler, exactly; or none.
    """

    floor_replicas: int
    ceiling_replicas: int
    lag_threshold_records: float | None
    threshold_rule: str
    ceiling_field: str = "spec.maxReplicaCount"
    partition_cap: PartitionCap = "none"
    scales_at_records: float | None = None
    """The lag per replica at which a trigger scales; None: no trigger compares records of lag with
    a number for each replica. A formula replaces the triggers' targets, and with ``metricType:
    Value`` the target is the group's."""
    group_target_records: float | None = None
    """The total lag at which a trigger with ``metricType: Value`` scales, at any replica count."""
    has_formula: bool = False
    """A formula replaces the triggers' targets: no number of records decides."""
    most_replicas: int | None = None
    """The most replicas that hours request, if besides them there are CPU and memory alone; None: a
    trigger follows lag or another measure of the load."""
    of_triggers: tuple[TriggerLimit, ...] = ()
    """Of each trigger; none under a formula, which replaces their targets."""
    leaks_one_replica: bool = False
    """KEDA's cap divides whole numbers: just above it the HPA rounds up to one replica more."""
    flags: ControllerFlags = field(default_factory=ControllerFlags)
    """Flags of the HPA's controller that the policy sets for itself."""
    tolerances: Tolerances = Tolerances()  # noqa: RUF009 - frozen

    @property
    def started_replicas(self) -> int:
        """Return the floor while there is anything to do: a policy that goes to 0 starts at 1."""
        return max(self.floor_replicas, 1)

    @property
    def reads_load(self) -> bool:
        """Return whether a trigger follows the load; not if CPU, memory and hours alone decide."""
        return self.most_replicas is None

    @property
    def reachable_replicas(self) -> int:
        """Return the most replicas there can be, without what CPU and memory add."""
        if self.most_replicas is None:
            return self.ceiling_replicas
        return min(max(self.most_replicas, self.started_replicas), self.ceiling_replicas)

    @property
    def is_capped_at_partitions(self) -> bool:
        """Return whether lag alone never wants more replicas than partitions, except for one."""
        return self.partition_cap != "none"

    def counted_partitions(self, partitions: int) -> int:
        """Return at how many of the topic's partitions a capped trigger on lag stops."""
        capped = [one for one in self.of_triggers if one.cap in ("keda", "exact")]
        return max((one.counted(partitions) for one in capped), default=partitions)

    def most_requested(self, partitions: int) -> int | None:
        """Return the most replicas that any trigger requests; None: one has no limit."""
        return _most(one.most(partitions) for one in self.of_triggers)

    def scales_above_records(self, replicas: int) -> float | None:
        """Return the total lag above which ``replicas`` are too few; None: no number decides.

        The HPA takes the highest proposal, so the lowest number of all triggers counts. Without a
        trigger on records, it is the annotation's for each replica.
        """
        if self.has_formula:
            return None
        of_replica, of_group = self.scales_at_records, self.group_target_records
        if of_replica is None and of_group is None:
            of_replica = self.lag_threshold_records
        return lowest_target_records(of_replica, of_group, replicas)

    def scales_above_text(self, replicas: int | None) -> str:
        """Return where ``scales_above_records`` comes from; None: the replicas are unknown."""
        if self.has_formula:
            return "a formula replaces the triggers' targets"
        of_group, count = self.group_target_records, max(1, replicas or 0)
        if of_group is not None and of_group == self.scales_above_records(count):
            return f"the target {of_group:g} of the whole group (metricType: Value)"
        if self.lag_threshold_records is None:
            return self.threshold_rule
        return f"{self.threshold_rule} x {'unknown' if replicas is None else count} replicas"


def lowest_target_records(
    of_replica: float | None, of_group: float | None, replicas: int
) -> float | None:
    """Return the total lag that ``replicas`` may hold by both targets; None: there is none."""
    of_all = None if of_replica is None else of_replica * max(1, replicas)
    return min((number for number in (of_group, of_all) if number is not None), default=None)


def limits_of(
    spec: ScaledObjectSpec | HpaSpec,
    manifest: Mapping[str, Any],
    *,
    where: str,
    kubernetes: str | None = None,
) -> PolicyLimits:
    """Return the limits of a policy; of ``manifest`` only the annotations are read.

    The threshold is the lowest of the triggers on lag, because the HPA takes the highest proposal;
    else the annotation ``lagbench.io/lag-threshold``: a CPU policy has none of its own, and
    comparing it with a lag policy needs the same threshold for both.

    :param kubernetes: the version that is followed; None: that of the annotation.
    :raises WrongInput: a threshold or a flag is not a number.
    """
    triggers = spec.triggers if isinstance(spec, ScaledObjectSpec) else ()
    every = tuple(_limit_of(trigger, where) for trigger in triggers)
    threshold, rule = _lowest(every) or _annotated(manifest, where)
    flags = controller_flags(manifest, where=where)
    if kubernetes is not None:
        flags = replace(flags, kubernetes=kubernetes)
    if isinstance(spec, HpaSpec):
        return PolicyLimits(
            floor_replicas=spec.min_replicas,
            ceiling_replicas=spec.max_replicas,
            lag_threshold_records=threshold,
            threshold_rule=rule,
            ceiling_field="spec.maxReplicas",
            most_replicas=None if spec.has_external else 0,
            flags=flags,
            tolerances=flags.tolerances(spec.behavior),
        )
    behavior = None
    with suppress(WrongInput):  # KEDA stores one that the API server then rejects in the HPA
        behavior = parse_behavior(spec.behavior, where=where, field="behavior")
    targets = () if spec.modifiers is not None else every
    of_replica = _lowest(one for one in targets if not one.is_of_group)
    of_group = _lowest(one for one in targets if one.is_of_group)
    weakest: tuple[PartitionCap, ...] = ("none", "keda", "exact")  # the highest proposal wins
    caps = {one.cap for one in targets}
    return PolicyLimits(
        floor_replicas=spec.floor,
        ceiling_replicas=spec.max_replica_count,
        lag_threshold_records=threshold,
        threshold_rule=rule,
        partition_cap=next((cap for cap in weakest if cap in caps), "none"),
        of_triggers=targets,
        leaks_one_replica=any(one.leaks_one_replica for one in targets),
        scales_at_records=None if of_replica is None else of_replica[0],
        group_target_records=None if of_group is None else of_group[0],
        has_formula=spec.modifiers is not None,
        most_replicas=_most(map(_at_any_load, spec.triggers)) if targets else None,
        flags=flags,
        tolerances=flags.tolerances(behavior),
    )


def unscaled_limits(replicas: int | None) -> PolicyLimits:
    """Return the limits of a group that no policy scales: it stays at its ``replicas``.

    None: unknown; then one.
    """
    count = max(1, replicas or 1)
    rule = "no policy is known, so no lag threshold"
    return PolicyLimits(count, count, None, rule, most_replicas=count)


def calls_lag_scaler(kind: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether a trigger speaks to the lag scaler of this project."""
    given = {str(key).removesuffix("FromEnv") for key in metadata}
    is_external = kind in ("external", "external-push")
    return is_external and not given.isdisjoint({"consumerGroup", "consumerGroupId"})


def _limit_of(trigger: Trigger, where: str) -> TriggerLimit:
    read, kind, is_of_group = trigger.parameters, trigger.type, trigger.metric_type == "Value"
    cap: PartitionCap | None = None
    found: tuple[float, str] | None = None
    is_even = False
    match read:
        case KafkaTrigger():
            is_even = read.ensure_even_distribution_of_partitions
            cap = "keda" if is_even or not read.allow_idle_consumers else "none"
            is_written = "lag_threshold" in read.model_fields_set
            rule = "lagThreshold {:g} of the {} trigger" if is_written else _KEDAS_DEFAULT
            found = float(read.lag_threshold), rule.format(read.lag_threshold, kind)
        case PrometheusTrigger() if read.counts_lag:
            rule = f"threshold {read.threshold:g} of the {kind} trigger"
            cap, found = "none", (read.threshold, rule)
        case ExternalTrigger() if calls_lag_scaler(kind, read.metadata):
            is_even = _is_on(read.metadata, "ensureEvenDistributionOfPartitions")
            cap = "exact" if is_even or not _is_on(read.metadata, "allowIdleConsumers") else "none"
            if read.metadata.get("lagMetric") != "seconds":  # else an age, not a number of records
                found = _written(read.metadata, kind, where) or _LAG_SCALERS_DEFAULT
        case ExternalTrigger() | ForeignTrigger():
            found = _written(read.metadata, kind, where)
    # An even distribution never exceeds KEDA's cap; times the ready pods there is no cap.
    leaks = cap == "keda" and not is_even and not is_of_group
    return TriggerLimit(
        index=trigger.index,
        type=kind,
        lag_target=found,
        is_of_group=is_of_group,
        cap="none" if cap and is_of_group else cap,
        leaks_one_replica=leaks,
        kept=read.partition_limitation if isinstance(read, KafkaTrigger) else None,
        fixed=None if trigger.is_resource else _at_any_load(trigger),
    )


def _at_any_load(trigger: Trigger) -> int | None:
    """Return the replicas that a trigger requests at any load; None: it follows a load."""
    if trigger.is_resource:
        return 0
    read = trigger.parameters
    return max(0, read.desired_replicas) if isinstance(read, CronTrigger) else None


def _most(counts: Iterable[int | None]) -> int | None:
    every = list(counts)
    known = [count for count in every if count is not None]
    return max(known) if known and len(known) == len(every) else None


def _lowest(limits: Iterable[TriggerLimit]) -> tuple[float, str] | None:
    """Return threshold and rule of the trigger on records of lag that scales first."""
    return min((one.lag_target for one in limits if one.lag_target is not None), default=None)


def _is_on(metadata: Mapping[str, str], name: str) -> bool:
    return go_boolean(metadata.get(name, "").strip()) is True


def _written(metadata: Mapping[str, str], kind: str, where: str) -> tuple[float, str] | None:
    """Return the threshold that is written, if any: a blank one counts as absent."""
    if not metadata.get("lagThreshold", "").strip():
        return None
    value = _number(metadata["lagThreshold"], "lagThreshold", where)
    return value, f"lagThreshold {value:g} of the {kind} trigger"


def _annotated(manifest: Mapping[str, Any], where: str) -> tuple[float | None, str]:
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    if LAG_THRESHOLD_ANNOTATION in annotations:
        value = _number(annotations[LAG_THRESHOLD_ANNOTATION], LAG_THRESHOLD_ANNOTATION, where)
        return value, f"annotation {LAG_THRESHOLD_ANNOTATION} {value:g}"
    return None, "the policy states no lag threshold"


def _number(text: Any, field: str, where: str) -> float:
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not value > 0:
        allowed = "a number above 0"
        raise WrongInput(where=where, field=field, value=text, allowed=allowed)
    return value


def loop_gain(pod_rate: float, limits: PolicyLimits) -> float | None:
    """Return HPA sync x rate of one pod / lagThreshold; None: the policy reads no lag.

    It is the lag, in thresholds, that one pod works off between two syncs.

    :param pod_rate: messages per second; infinite if a message costs nothing.
    """
    standing = standing_lag_seconds(pod_rate, limits)
    return None if standing is None else limits.flags.sync_seconds_in_force / standing


def standing_lag_seconds(pod_rate: float, limits: PolicyLimits) -> float | None:
    """Return lagThreshold / rate of one pod; None: the policy reads no lag.

    At rest n pods do the offered rate, and the lag is n x lagThreshold.
    """
    threshold = limits.scales_at_records
    if not threshold or not pod_rate or math.isinf(pod_rate):
        return None
    return threshold / pod_rate
