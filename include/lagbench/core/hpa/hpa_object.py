"""``behavior`` of an HPA: its model with the API server's defaults, and the rate limits.

Instants are integer nanoseconds, so that a 15 s period is compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lagbench.core.kubernetes_values import NS_PER_SECOND, parse_milli, parse_quantity
from lagbench.core.object_schema import json_value, refuse_unknown_fields
from lagbench.errors import WrongInput


class ScalingPolicy(BaseModel):
    """The change allowed within ``period_seconds``: a number of pods or a percentage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["Pods", "Percent"]
    value: int
    period_seconds: int


class ScalingRules(BaseModel):
    """One direction of ``behavior``; window None means the controller's own (scale-down only)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_seconds: int | None
    select_policy: Literal["Max", "Min", "Disabled"] = "Max"
    policies: tuple[ScalingPolicy, ...]
    tolerance: float | None = None
    """None: the controller's own."""

    @property
    def longest_period_seconds(self) -> int:
        """Return how long a change can matter to any policy."""
        return max(policy.period_seconds for policy in self.policies)


class HpaBehavior(BaseModel):
    """Both directions, defaults applied."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    scale_up: ScalingRules
    scale_down: ScalingRules


_DEFAULT_UP = ScalingRules(
    window_seconds=0,
    policies=(
        ScalingPolicy(type="Pods", value=4, period_seconds=15),
        ScalingPolicy(type="Percent", value=100, period_seconds=15),
    ),
)

_DEFAULT_DOWN = ScalingRules(
    window_seconds=None, policies=(ScalingPolicy(type="Percent", value=100, period_seconds=15),)
)


@dataclass(frozen=True, slots=True)
class ScaleEvent:
    """A change of replicas that was carried out."""

    change: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class ScaleEvents:
    """The changes that policies still count, by direction."""

    ups: tuple[ScaleEvent, ...] = ()
    downs: tuple[ScaleEvent, ...] = ()


def parse_behavior(
    behavior: Mapping[str, Any] | None, *, where: str, field: str
) -> HpaBehavior | None:
    """Return ``behavior`` with defaults; None stays None: another algorithm then applies."""
    if behavior is None:
        return None
    refuse_unknown_fields(behavior, ("scaleUp", "scaleDown"), where=where, field=field)
    up, down = behavior.get("scaleUp"), behavior.get("scaleDown")
    return HpaBehavior(
        scale_up=_parse_rules(up, _DEFAULT_UP, where, f"{field}.scaleUp"),
        scale_down=_parse_rules(down, _DEFAULT_DOWN, where, f"{field}.scaleDown"),
    )


def _parse_rules(
    rules: Mapping[str, Any] | None, default: ScalingRules, where: str, field: str
) -> ScalingRules:
    if rules is None:
        return default
    known = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")
    refuse_unknown_fields(rules, known, where=where, field=field)
    window = rules.get("stabilizationWindowSeconds", default.window_seconds)
    if window is not None:
        _check_range(window, 0, 3600, where, f"{field}.stabilizationWindowSeconds")
    # An empty list counts as none given: the defaults come back.
    given = rules.get("policies") or []
    if not isinstance(given, list):
        raise WrongInput(where=where, field=f"{field}.policies", value=given, allowed="a list")
    policies = tuple(
        _parse_policy(policy, where, f"{field}.policies[{index}]")
        for index, policy in enumerate(given)
    )
    select = rules.get("selectPolicy", default.select_policy)
    if select not in ("Max", "Min", "Disabled"):
        raise WrongInput(
            where=where, field=f"{field}.selectPolicy", value=select, allowed="Disabled, Max, Min"
        )
    tolerance = rules.get("tolerance")
    if tolerance is not None:
        tolerance = _parse_tolerance(tolerance, where, f"{field}.tolerance")
    return ScalingRules(
        window_seconds=window,
        select_policy=select,
        policies=policies or default.policies,
        tolerance=tolerance,
    )


def _parse_policy(policy: Mapping[str, Any], where: str, field: str) -> ScalingPolicy:
    refuse_unknown_fields(policy, ("type", "value", "periodSeconds"), where=where, field=field)
    value, period = policy.get("value"), policy.get("periodSeconds")
    _check_range(value, 1, 2**31 - 1, where, f"{field}.value")
    _check_range(period, 1, 1800, where, f"{field}.periodSeconds")
    try:
        return ScalingPolicy.model_validate(
            {"type": policy.get("type"), "value": value, "period_seconds": period}
        )
    except ValidationError as error:
        raise WrongInput(
            where=where, field=f"{field}.type", value=policy.get("type"), allowed="Pods, Percent"
        ) from error


def _parse_tolerance(text: str | float, where: str, field: str) -> float:
    """Return the number that Kubernetes makes of the stored ``50m``: 50 times 0.001."""
    quantity = parse_quantity(text, where=where, field=field)
    if quantity < 0:
        raise WrongInput(where=where, field=field, value=text, allowed="0 or more")
    digits = next((n for n in (0, 3, 6) if quantity * 10**n % 1 == 0), 9)
    return float(ceil(quantity * 10**digits)) * 10.0**-digits


def _check_range(value: object, low: int, high: int, where: str, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        allowed = f"a whole number from {low} to {high}"
        raise WrongInput(where=where, field=field, value=value, allowed=allowed)


def scale_up_limit(rules: ScalingRules, replicas: int, events: ScaleEvents, now_ns: int) -> int:
    """Return the most replicas that the policies allow now."""
    if rules.select_policy == "Disabled":
        return replicas
    starts = _period_starts(rules, replicas, events, now_ns)
    limits = [
        start + policy.value if policy.type == "Pods" else ceil(start * (1 + policy.value / 100))
        for policy, start in zip(rules.policies, starts, strict=True)
    ]
    return min(limits) if rules.select_policy == "Min" else max(limits)


def scale_down_limit(rules: ScalingRules, replicas: int, events: ScaleEvents, now_ns: int) -> int:
    """Return the fewest replicas that the policies allow now."""
    if rules.select_policy == "Disabled":
        return replicas
    starts = _period_starts(rules, replicas, events, now_ns)
    limits = [
        start - policy.value if policy.type == "Pods" else int(start * (1 - policy.value / 100))
        for policy, start in zip(rules.policies, starts, strict=True)
    ]
    # "Max" is the largest change, which for scaling down is the smallest count.
    return max(limits) if rules.select_policy == "Min" else min(limits)


def _period_starts(
    rules: ScalingRules, replicas: int, events: ScaleEvents, now_ns: int
) -> list[int]:
    """Return, per policy, the replicas that there were at the start of its period."""
    starts = []
    for policy in rules.policies:
        cut_ns = now_ns - policy.period_seconds * NS_PER_SECOND
        added = sum(event.change for event in events.ups if event.at_ns > cut_ns)
        removed = sum(event.change for event in events.downs if event.at_ns > cut_ns)
        starts.append(replicas - added + removed)
    return starts


_EXTERNAL_TARGETS = {"AverageValue": "averageValue", "Value": "value"}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ExternalMetric(_Frozen):
    """One number from outside the cluster, by name; the target is per pod or for all pods."""

    kind: Literal["External"] = "External"
    name: str
    selector: tuple[tuple[str, str], ...] = ()
    target_type: Literal["AverageValue", "Value"]
    target_milli: int


class ResourceMetric(_Frozen):
    """CPU or memory of the pods: percent of what they requested, or an amount per pod.

    ``container`` not empty: only that container of each pod counts (ContainerResource).
    """

    kind: Literal["Resource"] = "Resource"
    name: Literal["cpu", "memory"]
    container: str = ""
    target_type: Literal["Utilization", "AverageValue"]
    target_percent: int = 0
    target_milli: int = 0


Metric = ExternalMetric | ResourceMetric


class ScaleTarget(_Frozen):
    """The workload whose scale subresource is driven."""

    api_version: str
    kind: str
    name: str


class HpaSpec(_Frozen):
    """The spec of an HPA object, with defaults."""

    target: ScaleTarget
    min_replicas: int = 1
    max_replicas: int
    metrics: tuple[Metric, ...]
    behavior: HpaBehavior | None = None

    @property
    def has_external(self) -> bool:
        """Return whether a metric is there without a pod."""
        return any(isinstance(metric, ExternalMetric) for metric in self.metrics)


def parse_hpa(manifest: Mapping[str, Any], *, where: str) -> HpaSpec:
    """Return the spec of an HPA object; ``WrongInput`` names the field that is not allowed."""
    spec = json_value(manifest).get("spec") or {}
    target = spec.get("scaleTargetRef") or {}
    metrics = spec.get("metrics") or [_default_cpu_metric()]
    minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas")
    minimum = 1 if minimum is None else minimum  # a null counts as absent
    _check_bounds(minimum, maximum, where)
    try:
        return HpaSpec(
            target=ScaleTarget(
                api_version=target.get("apiVersion", "apps/v1"),
                kind=target.get("kind", ""),
                name=target.get("name", ""),
            ),
            min_replicas=minimum,
            max_replicas=maximum,
            metrics=tuple(
                _parse_metric(metric, where=where, field=f"spec.metrics[{index}]")
                for index, metric in enumerate(metrics)
            ),
            behavior=parse_behavior(spec.get("behavior"), where=where, field="spec.behavior"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(map(str, first["loc"]))
        raise WrongInput(
            where=where, field=path, value=first.get("input"), allowed=first["msg"]
        ) from error


def _check_bounds(minimum: object, maximum: object, where: str) -> None:
    if not isinstance(minimum, int) or minimum < 0:
        allowed = "a whole number of at least 1, or 0 (Kubernetes 1.37)"
        raise WrongInput(where=where, field="spec.minReplicas", value=minimum, allowed=allowed)
    if not isinstance(maximum, int) or maximum < minimum:
        allowed = f"a whole number of at least minReplicas ({minimum})"
        raise WrongInput(where=where, field="spec.maxReplicas", value=maximum, allowed=allowed)


def _default_cpu_metric() -> dict[str, Any]:
    """Return the metric of an HPA that names none: 80 % of the CPU request."""
    target = {"type": "Utilization", "averageUtilization": 80}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _parse_metric(metric: Mapping[str, Any], *, where: str, field: str) -> Metric:
    kind = metric.get("type")
    if kind == "External":
        return _parse_external(metric.get("external") or {}, where, f"{field}.external")
    if kind == "Resource":
        return _parse_resource(metric.get("resource") or {}, where, f"{field}.resource")
    if kind == "ContainerResource":
        return _parse_container(
            metric.get("containerResource") or {}, where, f"{field}.containerResource"
        )
    allowed = (
        "External, Resource, ContainerResource (the embedded autoscaler supports no other type)"
    )
    raise WrongInput(where=where, field=f"{field}.type", value=kind, allowed=allowed)


def _parse_external(external: Mapping[str, Any], where: str, field: str) -> ExternalMetric:
    target, identity = external.get("target") or {}, external.get("metric") or {}
    # The controller goes by the target that is there, not by its type.
    target_type: Literal["AverageValue", "Value"] = (
        "Value" if target.get("averageValue") is None else "AverageValue"
    )
    selector = (identity.get("selector") or {}).get("matchLabels") or {}
    return ExternalMetric(
        name=identity.get("name", ""),
        selector=tuple(sorted(selector.items())),
        target_type=target_type,
        target_milli=_target_milli(target, _EXTERNAL_TARGETS[target_type], where, field),
    )


def _parse_resource(resource: Mapping[str, Any], where: str, field: str) -> ResourceMetric:
    target, name = resource.get("target") or {}, resource.get("name")
    if name not in {"cpu", "memory"}:
        allowed = "cpu or memory: the metrics API of the pods has no other"
        raise WrongInput(where=where, field=f"{field}.name", value=name, allowed=allowed)
    if target.get("averageValue") is None:
        percent = target.get("averageUtilization")
        if not isinstance(percent, int) or percent < 1:
            raise WrongInput(
                where=where,
                field=f"{field}.target.averageUtilization",
                value=percent,
                allowed="a percentage of at least 1",
            )
        return ResourceMetric(name=name, target_type="Utilization", target_percent=percent)
    milli = _target_milli(target, "averageValue", where, field)
    return ResourceMetric(name=name, target_type="AverageValue", target_milli=milli)


def _parse_container(resource: Mapping[str, Any], where: str, field: str) -> ResourceMetric:
    container = resource.get("container")
    if not isinstance(container, str) or not container:
        raise WrongInput(
            where=where, field=f"{field}.container", value=container, allowed="a container's name"
        )
    whole = _parse_resource(resource, where, field)
    return whole.model_copy(update={"container": container})


def _target_milli(target: Mapping[str, Any], key: str, where: str, field: str) -> int:
    path = f"{field}.target.{key}"
    milli = parse_milli(target.get(key, ""), where=where, field=path)
    if milli <= 0:
        raise WrongInput(where=where, field=path, value=target[key], allowed="a positive quantity")
    return milli
