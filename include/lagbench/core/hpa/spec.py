"""The autoscaling/v2 HorizontalPodAutoscaler as the control loop needs it, parsed from its object.

Covered: External, Resource and ContainerResource (cpu, memory) metrics and the whole of
``behavior``, with the defaults and bounds of the API server. ``behavior.*.tolerance`` is dropped,
as the API server does while its feature gate is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lagbench.core.hpa.behavior import HpaBehavior, parse_behavior
from lagbench.core.kubernetes.json_value import json_value
from lagbench.core.kubernetes.quantity import parse_milli
from lagbench.errors import WrongInput

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
    if not isinstance(minimum, int) or minimum < 1:
        allowed = "a whole number of at least 1"
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
