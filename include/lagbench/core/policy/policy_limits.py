"""Determine the replica bounds of a policy, and the lag that one replica may hold under it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lag_scaler.keda_values import go_boolean, parse_partition_limitation
from lag_scaler.rule import LAG_SCALER_DEFAULT_THRESHOLD
from lagbench.core.hpa.controller_flags import ControllerFlags, controller_flags
from lagbench.core.keda.object.scaled_object_spec import DEFAULT_MAX_REPLICAS
from lagbench.core.keda.triggers.kafka_parameters import KAFKA_DEFAULT_LAG_THRESHOLD
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES
from lagbench.errors import WrongInput

LAG_THRESHOLD_ANNOTATION = "lagbench.io/lag-threshold"

KAFKA_TYPES = ("kafka", "apache-kafka")

EXTERNAL_TYPES = ("external", "external-push")

_RESOURCES = ("cpu", "memory")

_RESOURCE_METRICS = ("Resource", "ContainerResource")

PartitionCap = Literal["none", "keda", "exact"]


@dataclass(frozen=True, slots=True)
class TriggerLimit:
    """The replicas that one trigger requests at most.

    ``kept``: the partitions whose lag counts; None: all. ``fixed``: the number that a cron trigger
    requests.
    """

    index: int
    type: str
    cap: PartitionCap = "none"
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
        if self.cap == "none":
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
        capped = [one.counted(partitions) for one in self.of_triggers if one.cap != "none"]
        return max(capped, default=partitions)

    def most_requested(self, partitions: int) -> int | None:
        """Return the most replicas that any trigger requests; None: one has no limit."""
        asked = [one.most(partitions) for one in self.of_triggers]
        known = [count for count in asked if count is not None]
        return max(known) if known and len(known) == len(asked) else None

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


def policy_limits(manifest: Mapping[str, Any], *, where: str = "policy") -> PolicyLimits:
    """Return the limits of a ScaledObject or a HorizontalPodAutoscaler.

    The threshold is the lowest of the triggers on lag, because the HPA takes the highest proposal;
    else the annotation ``lagbench.io/lag-threshold``: a CPU policy has none of its own, and
    comparing it with a lag policy needs the same threshold for both.

    :raises WrongInput: the manifest is neither kind, or the threshold or a flag is not a number.
    """
    spec = manifest.get("spec") or {}
    kind = manifest.get("kind")
    flags = controller_flags(manifest, where=where)
    if kind == "ScaledObject":
        triggers = spec.get("triggers") or []
        threshold, rule = _threshold(manifest, triggers, where)
        is_composite = bool(
            ((spec.get("advanced") or {}).get("scalingModifiers") or {}).get("formula")
        )
        targets = [] if is_composite else triggers
        of_replica = _lowest([t for t in targets if not _is_of_the_group(t)], where)
        of_group = _lowest([t for t in targets if _is_of_the_group(t)], where)
        return PolicyLimits(
            floor_replicas=int(spec.get("minReplicaCount") or 0),
            ceiling_replicas=int(spec.get("maxReplicaCount") or DEFAULT_MAX_REPLICAS),
            lag_threshold_records=threshold,
            threshold_rule=rule,
            partition_cap=_partition_cap(targets),
            of_triggers=tuple(_limit_of(index, one) for index, one in enumerate(targets)),
            leaks_one_replica=any(map(_leaks_one_replica, targets)),
            scales_at_records=None if of_replica is None else of_replica[0],
            group_target_records=None if of_group is None else of_group[0],
            has_formula=is_composite,
            most_replicas=None if is_composite else _most_of(triggers),
            flags=flags,
        )
    if kind == "HorizontalPodAutoscaler":
        stated = spec.get("minReplicas")
        threshold, rule = _threshold(manifest, [], where)
        metrics = spec.get("metrics") or []
        reads_load = any(metric.get("type") not in _RESOURCE_METRICS for metric in metrics)
        return PolicyLimits(
            floor_replicas=int(1 if stated is None else stated),
            ceiling_replicas=int(spec["maxReplicas"]),
            lag_threshold_records=threshold,
            threshold_rule=rule,
            ceiling_field="spec.maxReplicas",
            most_replicas=None if reads_load else 0,
            flags=flags,
        )
    allowed = "ScaledObject or HorizontalPodAutoscaler"
    raise WrongInput(where=where, field="kind", value=kind, allowed=allowed)


def unscaled_limits(replicas: int | None) -> PolicyLimits:
    """Return the limits of a group that no policy scales: it stays at its ``replicas``.

    None: unknown; then one.
    """
    count = max(1, replicas or 1)
    rule = "no policy is known, so no lag threshold"
    return PolicyLimits(count, count, None, rule, most_replicas=count)


def is_lag_scaler(trigger: Mapping[str, Any]) -> bool:
    """Return whether an external trigger's metadata speaks to the lag scaler of this project."""
    metadata = trigger.get("metadata") or {}
    is_external = trigger.get("type") in EXTERNAL_TYPES
    given = {str(key).removesuffix("FromEnv") for key in metadata}
    return is_external and not given.isdisjoint({"consumerGroup", "consumerGroupId"})


def lag_threshold_key(trigger: Mapping[str, Any]) -> str | None:
    """Return the key with the records of lag per replica, of types whose record names it."""
    known = TRIGGER_TYPES.get(str(trigger.get("type")))
    return None if known is None else known.lag_threshold(trigger.get("metadata") or {})


def _partition_cap(triggers: Sequence[Mapping[str, Any]]) -> PartitionCap:
    """Return the weakest cap of all triggers on lag: the highest proposal wins."""
    caps: set[PartitionCap] = set()
    for trigger in triggers:
        metadata = trigger.get("metadata") or {}
        idles = go_boolean(str(metadata.get("allowIdleConsumers") or "").strip()) is True
        # An even distribution brings the cap back.
        evens = metadata.get("ensureEvenDistributionOfPartitions")
        is_capped = not idles or go_boolean(str(evens or "").strip()) is True
        is_capped &= not _is_of_the_group(trigger)  # times the ready pods, the cap is none
        if trigger.get("type") in KAFKA_TYPES:
            caps.add("keda" if is_capped else "none")
        elif is_lag_scaler(trigger):
            caps.add("exact" if is_capped else "none")
        elif lag_threshold_key(trigger) is not None:
            caps.add("none")
    weakest: tuple[PartitionCap, ...] = ("none", "keda", "exact")
    return next((cap for cap in weakest if cap in caps), "none")


def _is_of_the_group(trigger: Mapping[str, Any]) -> bool:
    """Return whether the target is held against the whole metric, not against its share a pod."""
    return trigger.get("metricType") == "Value"


def _most_of(triggers: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the most replicas that the triggers request at any load; None: one follows a load."""
    asked = [_asked(trigger) for trigger in triggers]
    known = [count for count in asked if count is not None]
    return max(known, default=0) if len(known) == len(asked) else None


def _asked(trigger: Mapping[str, Any]) -> int | None:
    """Return the replicas that a trigger requests at any load; None: it follows a load."""
    if trigger.get("type") in _RESOURCES:
        return 0
    if trigger.get("type") != "cron":
        return None
    desired = str((trigger.get("metadata") or {}).get("desiredReplicas") or "").strip()
    return int(desired) if desired.isdecimal() else 0  # KEDA runs no cron trigger with another


def _limit_of(index: int, trigger: Mapping[str, Any]) -> TriggerLimit:
    metadata, kind = trigger.get("metadata") or {}, str(trigger.get("type"))
    kept = None
    # KEDA drops the limitation where all topics count.
    topics = (metadata.get("topic"), metadata.get("topicFromEnv"))
    if (text := str(metadata.get("partitionLimitation") or "")).strip() and any(topics):
        with contextlib.suppress(ValueError):  # the trigger's parser has said so
            kept = parse_partition_limitation(text)
    return TriggerLimit(
        index,
        kind,
        cap=_partition_cap([trigger]),
        leaks_one_replica=_leaks_one_replica(trigger),
        kept=kept,
        fixed=_asked(trigger) if kind == "cron" else None,
    )


def _leaks_one_replica(trigger: Mapping[str, Any]) -> bool:
    """Return whether a trigger has KEDA's cap, and no even distribution, which never exceeds it."""
    evens = (trigger.get("metadata") or {}).get("ensureEvenDistributionOfPartitions")
    is_even = go_boolean(str(evens or "").strip()) is True
    return (
        trigger.get("type") in KAFKA_TYPES and _partition_cap([trigger]) == "keda" and not is_even
    )


def _threshold(
    manifest: Mapping[str, Any], triggers: Sequence[Mapping[str, Any]], where: str
) -> tuple[float | None, str]:
    found = _lowest(triggers, where)
    if found is not None:
        return found
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    if LAG_THRESHOLD_ANNOTATION in annotations:
        value = _number(annotations[LAG_THRESHOLD_ANNOTATION], LAG_THRESHOLD_ANNOTATION, where)
        return value, f"annotation {LAG_THRESHOLD_ANNOTATION} {value:g}"
    return None, "the policy states no lag threshold"


def _lowest(triggers: Sequence[Mapping[str, Any]], where: str) -> tuple[float, str] | None:
    """Return threshold and rule of the trigger on records of lag that scales first."""
    read = (_of_trigger(trigger, where) for trigger in triggers)
    return min((found for found in read if found is not None), default=None)


def _of_trigger(trigger: Mapping[str, Any], where: str) -> tuple[float, str] | None:
    metadata, kind = trigger.get("metadata") or {}, trigger.get("type")
    if is_lag_scaler(trigger) and metadata.get("lagMetric") == "seconds":
        return None  # its threshold is an age, not a number of records
    key = lag_threshold_key(trigger)
    if key is not None:
        value = _number(metadata.get(key), key, where)
        return value, f"{key} {value:g} of the {kind} trigger"
    if str(metadata.get("lagThreshold") or "").strip():  # a blank one counts as absent
        value = _number(metadata["lagThreshold"], "lagThreshold", where)
        return value, f"lagThreshold {value:g} of the {kind} trigger"
    if kind in KAFKA_TYPES:
        value = float(KAFKA_DEFAULT_LAG_THRESHOLD)
        return value, f"KEDA's default lagThreshold {value:g}"
    if is_lag_scaler(trigger):
        value = float(LAG_SCALER_DEFAULT_THRESHOLD)
        return value, f"the lag scaler's default lagThreshold {value:g}"
    return None


def _number(text: Any, field: str, where: str) -> float:
    allowed = "a number above 0"
    try:
        value = float(text)
    except (TypeError, ValueError) as broken:
        raise WrongInput(where=where, field=field, value=text, allowed=allowed) from broken
    if not value > 0:
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


POLICY_VERSIONS = {
    "ScaledObject": "keda.sh/v1alpha1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
}


def is_policy(document: Any) -> bool:
    """Return whether a document of a file is a ScaledObject or an HPA, of whichever version."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    return isinstance(kind, str) and kind in POLICY_VERSIONS
