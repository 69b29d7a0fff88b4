"""Build the alert rules of a policy file, and those of the bench's own Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lagbench.alerts.rule_files import RuleGroup
from lagbench.alerts.rules import AlertRule, Waits, alert_rules
from lagbench.alerts.series import (
    LagSeries,
    lag_in_production,
    lag_of_a_run,
    object_in_production,
    object_of_a_run,
)
from lagbench.core.hpa import HpaSpec, controller_flags, parse_behavior
from lagbench.core.keda.object import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers import (
    ExternalTrigger,
    KafkaTrigger,
    PrometheusTrigger,
    is_unknown,
    parse_lag_query,
)
from lagbench.core.lag_scaler import LAG_SCALER_DEFAULT_THRESHOLD
from lagbench.core.policy import (
    POLICY_VERSIONS,
    admitted_policy,
    is_policy,
    refuse_broken_triggers,
    target_environment,
)
from lagbench.errors import WrongInput

_SHORTEST_WAIT_SECONDS = 60


def rules_of_documents(
    documents: Sequence[Any], *, where: str, namespace: str = "default"
) -> list[RuleGroup]:
    """Return a group per policy in a file.

    :param namespace: that of a policy which names none.
    :raises WrongInput: there is none, or one that KEDA or Kubernetes would reject.
    """
    policies = [found for found in documents if is_policy(found)]
    if not policies:
        allowed = f"a policy: {' or '.join(POLICY_VERSIONS)}"
        kinds = [found.get("kind") for found in documents if isinstance(found, Mapping)]
        raise WrongInput(where=where, field="kind", value=kinds or None, allowed=allowed)
    return [_group(manifest, documents, where, namespace) for manifest in policies]


def names_no_namespace(document: Any) -> bool:
    """Return whether a document is a policy that does not say where it goes."""
    return is_policy(document) and not document["metadata"].get("namespace")


def _group(
    manifest: Mapping[str, Any], documents: Sequence[Any], where: str, namespace: str
) -> RuleGroup:
    environment = target_environment(manifest, documents)
    checked = admitted_policy(manifest, where=where, environment=environment)
    metadata = {"namespace": namespace, **checked.manifest["metadata"]}
    placed = {**checked.manifest, "metadata": metadata}
    rules = rules_of_policy(placed, where=where, environment=environment)
    return RuleGroup(str(metadata["name"]), str(metadata["namespace"]), rules)


def rules_of_policy(
    manifest: Mapping[str, Any], *, where: str, environment: Mapping[str, str] | None = None
) -> list[AlertRule]:
    """Return the rules of a ScaledObject or of a user's own HPA.

    :param environment: the variables of the target's container; None: not known.
    :raises WrongInput: KEDA or Kubernetes would reject it, or its client could never connect.
    """
    checked = admitted_policy(manifest, where=where, environment=environment)
    manifest, spec = checked.manifest, checked.spec
    if isinstance(spec, HpaSpec):
        return _of_hpa(manifest, spec, where)
    refuse_broken_triggers(spec, manifest, where=where)
    behavior = parse_behavior(spec.behavior, where=where, field="behavior")
    flags = controller_flags(manifest, where=where)
    sync_seconds = math.ceil(flags.sync_seconds_in_force)
    climb = 0
    if behavior is not None:
        climb = (behavior.scale_up.window_seconds or 0) + behavior.scale_up.longest_period_seconds
    scaled = object_in_production(
        namespace=spec.namespace,
        scaled_object=spec.name,
        hpa=spec.hpa_name,
        ceiling=spec.max_replica_count,
        tolerance=flags.tolerance_in_force,
    )
    waits = Waits(
        climb=max(climb + 2 * sync_seconds, _SHORTEST_WAIT_SECONDS),
        without_metric=_without_metric_seconds(spec, sync_seconds),
        stand_in=_stand_in(spec),
    )
    labels = {"namespace": spec.namespace, "scaledobject": spec.name}
    return alert_rules(list(_lags(spec)), scaled, waits, labels)


def rules_of_bench() -> list[AlertRule]:
    """Return the rules for any run: limits and thresholds are those of the policy in force."""
    waits = Waits(
        climb=_SHORTEST_WAIT_SECONDS,
        without_metric=_SHORTEST_WAIT_SECONDS,
        stand_in="The policy has no fallback, or it did not engage.",
    )
    return alert_rules([lag_of_a_run()], object_of_a_run(), waits, {})


def _of_hpa(manifest: Mapping[str, Any], spec: HpaSpec, where: str) -> list[AlertRule]:
    metadata = manifest.get("metadata") or {}
    namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name"))
    scaled = object_in_production(
        namespace=namespace,
        scaled_object=None,
        hpa=name,
        ceiling=spec.max_replicas,
        tolerance=controller_flags(manifest, where=where).tolerance_in_force,
    )
    waits = Waits(
        climb=_SHORTEST_WAIT_SECONDS,
        without_metric=_SHORTEST_WAIT_SECONDS,
        stand_in="A plain HPA has no fallback.",
    )
    labels = {"namespace": namespace, "horizontalpodautoscaler": name}
    return alert_rules([], scaled, waits, labels)


def _lags(spec: ScaledObjectSpec) -> Iterator[LagSeries]:
    """Yield the lag of each group and topic that a trigger reads, with the lowest threshold.

    The HPA takes the highest proposal, so of several triggers on one lag the lowest number decides.
    A target for each replica comes before one of the whole group: no replica count compares them.
    A formula replaces the triggers' targets: then no number of records decides.
    """
    found: dict[tuple[str, str], LagSeries] = {}
    for lag in filter(None, map(_lag, spec.triggers)):
        key = lag.group, lag.topic
        found[key] = min(found.get(key, lag), lag, key=_strictness)
    for lag in found.values():
        yield lag if spec.modifiers is None else replace(lag, threshold=None)


def _strictness(lag: LagSeries) -> tuple[bool, bool, float]:
    return lag.threshold is None, not lag.is_per_replica, float(lag.threshold or 0)


def _lag(trigger: Trigger) -> LagSeries | None:
    is_per_replica = trigger.metric_type == "AverageValue"
    if isinstance(trigger.parameters, KafkaTrigger):
        if is_unknown(f"{trigger.parameters.topic} {trigger.parameters.consumer_group}"):
            return None
        return lag_in_production(
            topic=trigger.parameters.topic,
            group=trigger.parameters.consumer_group,
            threshold=str(trigger.parameters.lag_threshold),
            is_per_replica=is_per_replica,
            kept=trigger.parameters.partition_limitation,
        )
    if isinstance(trigger.parameters, PrometheusTrigger):
        return _lag_of_query(trigger.parameters, is_per_replica=is_per_replica)
    if not isinstance(trigger.parameters, ExternalTrigger):
        return None
    metadata = trigger.parameters.metadata
    group, topic = _sent(metadata, "consumerGroup", "consumerGroupId"), _sent(metadata, "topic")
    if not group or is_unknown(f"{group} {topic}"):
        return None  # a third-party scaler, whose metric is unknown, or a group that is
    counts_seconds = metadata.get("lagMetric") == "seconds"
    threshold = metadata.get("lagThreshold") or f"{LAG_SCALER_DEFAULT_THRESHOLD}"
    return lag_in_production(
        topic=topic,
        group=group,
        threshold=None if counts_seconds or not threshold.isdecimal() else threshold,
        is_per_replica=is_per_replica,
    )


def _sent(metadata: Mapping[str, str], *names: str) -> str:
    """Return the first of the names that a scaler gets, as it is written or by a variable."""
    keys = [key for name in names for key in (name, f"{name}FromEnv")]
    return next((metadata[key] for key in keys if metadata.get(key)), "")


def _lag_of_query(trigger: PrometheusTrigger, *, is_per_replica: bool) -> LagSeries | None:
    """Return the lag that the query selects; None if it selects something else."""
    query = parse_lag_query(trigger.query)
    if query is None or not query.group:
        return None
    return lag_in_production(
        topic=query.topic,
        group=query.group,
        threshold=f"{trigger.threshold:g}",
        is_per_replica=is_per_replica,
    )


def _without_metric_seconds(spec: ScaledObjectSpec, sync_seconds: int) -> int:
    if spec.valid_fallback is None:
        return _SHORTEST_WAIT_SECONDS
    polls = spec.valid_fallback.failure_threshold + 1
    return polls * max(spec.polling_interval_seconds, sync_seconds) + 2 * sync_seconds


def _stand_in(spec: ScaledObjectSpec) -> str:
    if spec.fallback is None:
        return "The policy has no fallback."
    if spec.valid_fallback is None:
        return "The policy has a fallback that KEDA ignores."
    fallback = spec.valid_fallback
    return (
        f"The fallback to {fallback.replicas} replicas after {fallback.failure_threshold} failures "
        "did not engage."
    )
