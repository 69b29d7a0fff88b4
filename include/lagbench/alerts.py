"""Alert rules for Prometheus of a policy (``lagbench policy alerts``).

They show faults of a policy that stay unnoticed until the lag has grown. Their vectors have no
label, because the policy's names are in the selectors. Those for any run of the bench are in
``k8s/base/monitoring/alerts.yml``, on the series of the recorder, which knows limits and thresholds
of the policy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import yaml

from lag_scaler.rule import LAG_SCALER_DEFAULT_THRESHOLD
from lagbench.core.hpa.hpa_object import HpaSpec, parse_behavior
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec, Trigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.promql import parse_lag_query
from lagbench.core.keda.triggers.trigger_authentication import is_unknown
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger
from lagbench.core.policy.policy import POLICY_VERSIONS, Policy, is_policy, refuse_broken_triggers
from lagbench.core.policy.review.policy_file import target_environment
from lagbench.errors import WrongInput

_SHORTEST_WAIT_SECONDS = 60
_FALL_SECONDS = 120
_IDLE_SECONDS = 300
_ERRORS = "keda_scaler_detail_errors_total"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alerting rule of Prometheus."""

    name: str
    severity: Literal["warning", "critical"]
    for_seconds: int
    expr: str
    summary: str
    description: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the rule in the form of a rule file."""
        # A group's name may have braces, which Prometheus would take for a template.
        labels, annotations = (
            {name: text.replace("{{", '{{"{{"}}') for name, text in texts.items()}
            for texts in (
                {"severity": self.severity, **self.labels},
                {"summary": self.summary, "description": self.description},
            )
        )
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": f"{self.for_seconds}s",
            "labels": labels,
            "annotations": annotations,
        }


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """The rules of one policy, under its name and in its namespace."""

    name: str
    namespace: str
    rules: Sequence[AlertRule]


def rule_file(groups: Iterable[RuleGroup]) -> dict[str, Any]:
    """Return a Prometheus rule file."""
    return {
        "groups": [
            {
                "name": f"{group.namespace}/{group.name}",
                "rules": [rule.as_dict() for rule in group.rules],
            }
            for group in groups
        ]
    }


def prometheus_rule(group: RuleGroup) -> dict[str, Any]:
    """Return a PrometheusRule of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": f"{group.name}-alerts", "namespace": group.namespace},
        "spec": rule_file([group]),
    }


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks, and indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, indentless=False)


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    ),
)


def as_yaml(documents: Iterable[dict[str, Any]], *, head: str) -> str:
    """Return YAML below comment lines."""
    lines = "".join(f"# {line}\n" for line in head.splitlines())
    return lines + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=110)


@dataclass(frozen=True, slots=True)
class _Lag:
    """The lag of one trigger, now and before; ``threshold`` None: no number of records decides."""

    now: str
    before: str
    partitions: str
    threshold: str | None
    is_per_replica: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """The scaled object; the last three expressions have samples only while they hold."""

    desired_series: str
    existing: str
    ceiling: int
    cannot_read: str
    not_ready: str
    scaler_errors: str
    tolerance: float = 0.0  # of the HPA; 0: the threshold has it
    climb_seconds: int = _SHORTEST_WAIT_SECONDS  # in which a policy may change nothing
    without_metric_seconds: int = _SHORTEST_WAIT_SECONDS
    stand_in: str = ""  # what there is in place of a metric
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def desired(self) -> str:
        return f"max({self.desired_series})"


def rules_of_documents(
    documents: Sequence[Any], *, where: str, namespace: str = "default"
) -> list[RuleGroup]:
    """Return a group per policy in a file; one that names no namespace gets ``namespace``.

    :raises WrongInput: there is none, or one that KEDA or Kubernetes would reject.
    """
    policies = [found for found in documents if is_policy(found)]
    if not policies:
        allowed = f"a policy: {' or '.join(POLICY_VERSIONS)}"
        kinds = [found.get("kind") for found in documents if isinstance(found, Mapping)]
        raise WrongInput(where=where, field="kind", value=kinds or None, allowed=allowed)
    groups = []
    for manifest in policies:
        environment = target_environment(manifest, documents)
        checked = Policy.load(manifest, where=where, environment=environment)
        metadata = {"namespace": namespace, **checked.manifest["metadata"]}
        placed = {**checked.manifest, "metadata": metadata}
        rules = rules_of_policy(placed, where=where, environment=environment)
        groups.append(RuleGroup(str(metadata["name"]), str(metadata["namespace"]), rules))
    return groups


def names_no_namespace(document: Any) -> bool:
    """Return whether a document is a policy that does not say where it goes."""
    return is_policy(document) and not document["metadata"].get("namespace")


def rules_of_policy(
    manifest: Mapping[str, Any], *, where: str, environment: Mapping[str, str] | None = None
) -> list[AlertRule]:
    """Return the rules of a ScaledObject or of a user's own HPA.

    :param environment: the variables of the target's container; None: not known.
    :raises WrongInput: KEDA or Kubernetes would reject it, or its client could never connect.
    """
    checked = Policy.load(manifest, where=where, environment=environment)
    manifest, spec = checked.manifest, checked.spec
    flags, tolerated = checked.limits.flags, checked.limits.tolerances.up
    if isinstance(spec, HpaSpec):
        metadata = manifest.get("metadata") or {}
        namespace, name = str(metadata.get("namespace") or "default"), str(metadata.get("name"))
        scaled = _scaled(namespace, None, name, spec.max_replicas, tolerated)
        return _rules([], replace(scaled, stand_in="A plain HPA has no fallback."))
    refuse_broken_triggers(checked)
    behavior = parse_behavior(spec.behavior, where=where, field="behavior")
    sync_seconds = math.ceil(flags.sync_seconds_in_force)
    climb, wait = 2 * sync_seconds, _SHORTEST_WAIT_SECONDS
    if behavior is not None:
        climb += (behavior.scale_up.window_seconds or 0) + behavior.scale_up.longest_period_seconds
    stand_in, fallback = "The policy has no fallback.", spec.valid_fallback
    if fallback is not None:
        polls = fallback.failure_threshold + 1
        wait = polls * max(spec.polling_interval_seconds, sync_seconds) + 2 * sync_seconds
        stand_in = (
            f"The fallback to {fallback.replicas} replicas after {fallback.failure_threshold} "
            "failures did not engage."
        )
    elif spec.fallback is not None:
        stand_in = "The policy has a fallback that KEDA ignores."
    scaled = _scaled(spec.namespace, spec.name, spec.hpa_name, spec.max_replica_count, tolerated)
    scaled = replace(
        scaled,
        climb_seconds=max(climb, _SHORTEST_WAIT_SECONDS),
        without_metric_seconds=wait,
        stand_in=stand_in,
    )
    return _rules(_lags(spec), scaled)


def _lags(spec: ScaledObjectSpec) -> Iterator[_Lag]:
    """Yield the lag of each group and topic that a trigger reads, with the lowest threshold.

    The HPA takes the highest proposal, so of several triggers on one lag the lowest number decides.
    A target for each replica comes before one of the whole group: no replica count compares them.
    A formula replaces the triggers' targets: then no number of records decides.
    """

    def strictness(lag: _Lag) -> tuple[bool, bool, float]:
        return lag.threshold is None, not lag.is_per_replica, float(lag.threshold or 0)

    found: dict[str, _Lag] = {}
    for lag in filter(None, map(_lag_of, spec.triggers)):
        key = str(lag.labels)
        found[key] = min(found.get(key, lag), lag, key=strictness)
    for lag in found.values():
        yield lag if spec.modifiers is None else replace(lag, threshold=None)


def _lag_of(trigger: Trigger) -> _Lag | None:
    """Return the lag from kafka_exporter; None: the trigger reads something else, or unknown."""
    of, threshold, kept = trigger.parameters, None, None
    if isinstance(of, KafkaTrigger):
        topic, group, threshold = of.topic, of.consumer_group, str(of.lag_threshold)
        kept = of.partition_limitation
    elif isinstance(of, PrometheusTrigger):
        query = parse_lag_query(of.query)
        if query is None:
            return None
        topic, group, threshold = query.topic, query.group, f"{of.threshold:g}"
    elif isinstance(of, ExternalTrigger):
        topic = _sent(of.metadata, "topic")
        group = _sent(of.metadata, "consumerGroup", "consumerGroupId")
        given = of.metadata.get("lagThreshold") or f"{LAG_SCALER_DEFAULT_THRESHOLD}"
        if of.metadata.get("lagMetric") != "seconds" and given.isdecimal():
            threshold = given
    else:
        return None
    if not group or (is_unknown(f"{topic} {group}") and not isinstance(of, PrometheusTrigger)):
        return None
    of_topic = {"topic": topic} if topic else {}
    name, labels, only = "kafka_consumergroup_lag_sum", "topic", ""
    if kept is not None:
        name, labels = "kafka_consumergroup_lag", "topic, partition"
        only = f',partition=~"{"|".join(map(str, sorted({*kept})))}"'
    lag = _select(name, only, consumergroup=group, **of_topic)
    every = _select("kafka_consumergroup_lag", consumergroup=group)
    if topic:
        every = _select("kafka_topic_partition_current_offset", only, topic=topic)
    return _Lag(
        now=f"sum(max by ({labels}) ({lag}))",
        before=f"sum(max by ({labels}) ({lag} offset {_FALL_SECONDS}s))",
        partitions=f"count(count by (topic, partition) ({every}))",
        threshold=threshold,
        is_per_replica=trigger.metric_type == "AverageValue",
        labels=of_topic | {"consumergroup": group},
    )


def _sent(metadata: Mapping[str, str], *names: str) -> str:
    """Return the first of the names that a scaler gets, as it is written or by a variable."""
    keys = [key for name in names for key in (name, f"{name}FromEnv")]
    return next((metadata[key] for key in keys if metadata.get(key)), "")


def _scaled(namespace: str, name: str | None, hpa: str, ceiling: int, tolerance: float) -> _Scaled:
    """Return kube-state-metrics' and KEDA's series of a policy; ``name`` None: a user's HPA."""
    of_hpa = {"namespace": namespace, "horizontalpodautoscaler": hpa}
    status = "kube_horizontalpodautoscaler_status"
    desired = _select(f"{status}_desired_replicas", **of_hpa)
    existing = _select(f"{status}_current_replicas", **of_hpa)
    inactive = _select(f"{status}_condition", **of_hpa, condition="ScalingActive", status="false")
    not_ready = errors = ""
    if name is not None:
        ready = _select(
            "kube_customresource_scaledobject_status_condition",
            namespace=namespace,
            scaledobject=name,
            condition="Ready",
            status="False",
        )
        not_ready = f"max({ready}) == 1"
        # A scrape with its own namespace label renames KEDA's.
        renamed = _select("", exported_namespace=namespace, scaledObject=name)
        own = _select("", exported_namespace="", namespace=namespace, scaledObject=name)
        errors = _errors([renamed, own])
    return _Scaled(
        desired_series=desired,
        existing=f"max({existing})",
        ceiling=ceiling,
        cannot_read=f"max({inactive}) == 1\nand max({existing}) > 0",
        not_ready=not_ready,
        scaler_errors=errors,
        tolerance=tolerance,
        labels=of_hpa if name is None else {"namespace": namespace, "scaledobject": name},
    )


def _errors(selectors: Sequence[str]) -> str:
    """Return the errors of five minutes; a counter has no sample before its first error."""
    grown = " or ".join(f"increase({_ERRORS}{where}[5m])" for where in selectors)
    now = " or ".join(f"{_ERRORS}{where}" for where in selectors)
    before = " or ".join(f"{_ERRORS}{where} offset 5m" for where in selectors)
    return f"sum ({grown}) > 0\nor (sum ({now}) > 0 unless sum ({before}))"


def _select(metric: str, also: str = "", **labels: str) -> str:
    # A PromQL string has the escapes of a JSON string, but no surrogates.
    where = ",".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in labels.items()
    )
    return f"{metric}{{{where}{also}}}"


def _rules(lags: Iterable[_Lag], scaled: _Scaled) -> list[AlertRule]:
    """Return all rules: those on lag for each lag, then those on the object."""
    found = [rule for lag in lags for rule in _on_lag(lag, scaled)]
    return found + [replace(rule, labels=scaled.labels) for rule in _on_object(scaled)]


def _on_lag(lag: _Lag, scaled: _Scaled) -> list[AlertRule]:
    due = "0"
    if lag.threshold is not None:  # the lag above which the HPA adds replicas
        tolerated = f"{1 + scaled.tolerance:g} * " if scaled.tolerance else ""
        due = f"{tolerated}{lag.threshold}" + f" * {scaled.desired}" * lag.is_per_replica
    stuck = AlertRule(
        "ConsumersStuckBelowPartitions",
        "critical",
        scaled.climb_seconds,
        f"{lag.now} > {due}\nand {scaled.desired} < {scaled.ceiling}"
        f"\nand {scaled.desired} < {lag.partitions}"
        f"\nand max(changes({scaled.desired_series}[{scaled.climb_seconds}s])) == 0",
        "Lag requires more consumers, and the autoscaler adds none",
        "The lag exceeds the target of the replicas, their number is below the partitions and "
        f"below maxReplicaCount, and it did not change for {scaled.climb_seconds} s.",
    )
    idle = AlertRule(
        "ConsumersIdleBeyondPartitions",
        "warning",
        _IDLE_SECONDS,
        f"{scaled.existing} > {lag.partitions}",
        "More consumers than partitions",
        "Each consumer beyond the partitions gets no partition: it is idle but paid for.",
    )
    not_falling = AlertRule(
        "LagNotFallingAtCeiling",
        "critical",
        _FALL_SECONDS,
        f"({scaled.desired} >= {scaled.ceiling}\n  or {scaled.desired} >= {lag.partitions})"
        f"\nand {lag.now} > {due}\nand {lag.now} >= {lag.before}",
        "All consumers that can help are running, and the lag does not fall",
        "The policy has reached its limit: raise maxReplicaCount up to the partitions, add "
        "partitions, or make a consumer faster. A hot partition also looks like this.",
    )
    rules = [idle, not_falling] if lag.threshold is None else [stuck, idle, not_falling]
    return [replace(rule, labels={**scaled.labels, **lag.labels}) for rule in rules]


def _on_object(scaled: _Scaled) -> Iterator[AlertRule]:
    yield AlertRule(
        "NoMetricAndNoFallback",
        "critical",
        scaled.without_metric_seconds,
        scaled.cannot_read,
        "The HPA cannot read its metric, and there is no fallback value",
        f"The replicas do not follow the lag. {scaled.stand_in}",
    )
    if scaled.not_ready:
        yield AlertRule(
            "ScaledObjectNotReady",
            "critical",
            60,
            scaled.not_ready,
            "The ScaledObject is not Ready",
            "KEDA cannot run the policy as written or cannot read a trigger. The condition Ready "
            "of the object has the reason.",
        )
    if scaled.scaler_errors:
        yield AlertRule(
            "ScalerErrors",
            "warning",
            0,
            scaled.scaler_errors,
            "KEDA could not read a trigger",
            "The source of a trigger failed to answer within the last five minutes.",
        )
