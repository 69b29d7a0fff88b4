"""KEDA's ScaledObject: the fields of its CRD, parsed strictly, with defaults and bounds.

What this autoscaler does not do yet (fallback, scalingModifiers, pausing, trigger
authentication) is refused, never ignored: a policy must not mean less here than in production.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.field_names import refuse_unknown_fields
from lagbench.core.hpa_behavior import parse_behavior
from lagbench.core.hpa_spec import ScaleTarget
from lagbench.core.kafka_trigger import KafkaTrigger, TriggerRefused
from lagbench.core.trigger_registry import parse_trigger
from lagbench.errors import WrongInput

API_VERSION, KIND = "keda.sh/v1alpha1", "ScaledObject"
_SPEC_FIELDS = (
    "scaleTargetRef",
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "minReplicaCount",
    "maxReplicaCount",
    "advanced",
    "triggers",
    "fallback",
)
_TARGET_FIELDS = ("name", "apiVersion", "kind", "envSourceContainerName")
_TRIGGER_FIELDS = (
    "type",
    "name",
    "metadata",
    "authenticationRef",
    "useCachedMetrics",
    "metricType",
)
_ADVANCED_FIELDS = (
    "horizontalPodAutoscalerConfig",
    "restoreToOriginalReplicaCount",
    "scalingModifiers",
)
_UNSUPPORTED_ANNOTATIONS = (
    "autoscaling.keda.sh/paused",
    "autoscaling.keda.sh/paused-replicas",
    "autoscaling.keda.sh/paused-scale-in",
    "autoscaling.keda.sh/paused-scale-out",
    "autoscaling.keda.sh/force-activation",
    "scaledobject.keda.sh/transfer-hpa-ownership",
)
_LABEL_LENGTH = 63
_NOT_HERE = "leave it out: the embedded autoscaler does not implement it"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trigger(_Frozen):
    """One entry of ``spec.triggers``; ``index`` is its place, part of the metric's name."""

    index: int
    type: str
    name: str = ""
    metric_type: Literal["AverageValue", "Value"] = "AverageValue"
    uses_cached_metrics: bool = False
    parameters: KafkaTrigger

    @property
    def metric_name(self) -> str:
        """Return the name of the trigger's external metric."""
        return self.parameters.metric_name(self.index)


class ScaledObjectSpec(_Frozen):
    """What a ScaledObject asks for; None where KEDA tells absent from zero."""

    name: str
    namespace: str
    target: ScaleTarget
    polling_interval_seconds: int = 30
    cooldown_seconds: int = 300
    initial_cooldown_seconds: int = 0
    idle_replica_count: int | None = None
    min_replica_count: int | None = None
    max_replica_count: int = 100
    hpa_name: str
    behavior: dict[str, Any] | None = None  # verbatim: the API server applies its defaults
    restores_replicas: bool = False
    triggers: tuple[Trigger, ...]

    @property
    def floor(self) -> int:
        """Return minReplicaCount as the scale loop takes it: absent is 0."""
        return self.min_replica_count or 0

    @property
    def uses_cached_metrics(self) -> bool:
        """Say whether any trigger serves the scale loop's value to the HPA."""
        return any(trigger.uses_cached_metrics for trigger in self.triggers)

    def trigger_of(self, metric_name: str) -> Trigger | None:
        """Return the trigger behind an external metric's name."""
        return next((item for item in self.triggers if item.metric_name == metric_name), None)


def environment_container(manifest: Mapping[str, Any]) -> str:
    """Return the container whose environment ``...FromEnv`` reads; empty: the first one."""
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    return str(target.get("envSourceContainerName") or "")


def parse_scaled_object(
    manifest: Mapping[str, Any], *, where: str, environment: Mapping[str, str] | None = None
) -> ScaledObjectSpec:
    """Return the spec of a ScaledObject; ``WrongInput`` names field, value and what is allowed."""
    if (manifest.get("apiVersion"), manifest.get("kind")) != (API_VERSION, KIND):
        kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise WrongInput(where=where, field="kind", value=kind, allowed=f"{API_VERSION} {KIND}")
    metadata = manifest.get("metadata") or {}
    for annotation in _UNSUPPORTED_ANNOTATIONS:
        if annotation in (metadata.get("annotations") or {}):
            field = f"metadata.annotations.{annotation}"
            value = metadata["annotations"][annotation]
            raise WrongInput(where=where, field=field, value=value, allowed=_NOT_HERE)
    spec = refuse_unknown_fields(manifest.get("spec"), _SPEC_FIELDS, where=where, field="spec")
    if spec.get("fallback") is not None:
        raise WrongInput(
            where=where, field="spec.fallback", value=spec["fallback"], allowed=_NOT_HERE
        )
    advanced = _advanced(spec.get("advanced") or {}, where)
    hpa_config = advanced.get("horizontalPodAutoscalerConfig") or {}
    name = str(metadata.get("name") or "")
    parsed = ScaledObjectSpec(
        name=name,
        namespace=metadata.get("namespace") or "default",
        target=_target(spec.get("scaleTargetRef"), where),
        polling_interval_seconds=_whole(spec, "pollingInterval", 30, 1, where),
        cooldown_seconds=_whole(spec, "cooldownPeriod", 300, 0, where),
        initial_cooldown_seconds=_whole(spec, "initialCooldownPeriod", 0, 0, where),
        idle_replica_count=_optional(spec, "idleReplicaCount", 0, where),
        min_replica_count=_optional(spec, "minReplicaCount", 0, where),
        max_replica_count=_whole(spec, "maxReplicaCount", 100, 1, where),
        hpa_name=hpa_config.get("name") or f"keda-hpa-{name}",
        behavior=hpa_config.get("behavior"),
        restores_replicas=_boolean(advanced, "restoreToOriginalReplicaCount", where),
        triggers=_triggers(spec.get("triggers"), where, environment or {}),
    )
    _check_names(parsed, where)
    _check_bounds(parsed, where)
    return parsed


def _advanced(advanced: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    field = "spec.advanced"
    refuse_unknown_fields(advanced, _ADVANCED_FIELDS, where=where, field=field)
    if advanced.get("scalingModifiers"):
        raise WrongInput(
            where=where,
            field=f"{field}.scalingModifiers",
            value=advanced["scalingModifiers"],
            allowed=_NOT_HERE,
        )
    field = f"{field}.horizontalPodAutoscalerConfig"
    config = refuse_unknown_fields(
        advanced.get("horizontalPodAutoscalerConfig") or {},
        ("name", "behavior"),
        where=where,
        field=field,
    )
    parse_behavior(config.get("behavior"), where=where, field=f"{field}.behavior")
    return advanced


def _target(target: object, where: str) -> ScaleTarget:
    field = "spec.scaleTargetRef"
    known = refuse_unknown_fields(target, _TARGET_FIELDS, where=where, field=field)
    if not known.get("name"):
        raise WrongInput(
            where=where, field=f"{field}.name", value=known.get("name"), allowed="a workload's name"
        )
    return ScaleTarget(
        api_version=known.get("apiVersion") or "apps/v1",
        kind=known.get("kind") or "Deployment",
        name=known["name"],
    )


def _triggers(triggers: object, where: str, environment: Mapping[str, str]) -> tuple[Trigger, ...]:
    if not isinstance(triggers, list) or not triggers:
        raise WrongInput(
            where=where, field="spec.triggers", value=triggers, allowed="at least one trigger"
        )
    parsed: list[Trigger] = []
    for index, item in enumerate(triggers):
        field = f"spec.triggers[{index}]"
        trigger = refuse_unknown_fields(item, _TRIGGER_FIELDS, where=where, field=field)
        name = trigger.get("name") or ""
        if name and any(other.name == name for other in parsed):
            allowed = "a name that no other trigger of this ScaledObject has"
            raise WrongInput(where=where, field=f"{field}.name", value=name, allowed=allowed)
        parsed.append(_trigger(index, trigger, where, environment))
    return tuple(parsed)


def _trigger(
    index: int, trigger: Mapping[str, Any], where: str, environment: Mapping[str, str]
) -> Trigger:
    field = f"spec.triggers[{index}]"
    if trigger.get("authenticationRef") is not None:
        raise WrongInput(
            where=where,
            field=f"{field}.authenticationRef",
            value=trigger["authenticationRef"],
            allowed=_NOT_HERE,
        )
    metadata = trigger.get("metadata")
    if not isinstance(metadata, Mapping):
        raise WrongInput(
            where=where, field=f"{field}.metadata", value=metadata, allowed="a mapping of strings"
        )
    for key, value in metadata.items():
        if not isinstance(value, str):
            allowed = f'a string: "{value}" in quotes'
            raise WrongInput(
                where=where, field=f"{field}.metadata.{key}", value=value, allowed=allowed
            )
    parameters = parse_trigger(
        trigger.get("type"), metadata, where=where, field=field, environment=environment
    )
    return Trigger(
        index=index,
        type=trigger["type"],
        name=trigger.get("name") or "",
        metric_type=_metric_type(trigger, where, field),
        uses_cached_metrics=_boolean(trigger, "useCachedMetrics", where, parent=field),
        parameters=parameters,
    )


def _metric_type(
    trigger: Mapping[str, Any], where: str, field: str
) -> Literal["AverageValue", "Value"]:
    metric_type = trigger.get("metricType") or "AverageValue"
    if metric_type == "Utilization":
        raise TriggerRefused(
            where=where,
            field=f"{field}.metricType",
            value=metric_type,
            keda_message="error getting scaler metric type: 'Utilization' metric type is "
            "unsupported for external metrics, allowed values are 'Value' or 'AverageValue'",
        )
    if metric_type == "Value":
        return "Value"
    if metric_type != "AverageValue":
        raise WrongInput(
            where=where,
            field=f"{field}.metricType",
            value=metric_type,
            allowed="Value, AverageValue",
        )
    return "AverageValue"


def _check_names(spec: ScaledObjectSpec, where: str) -> None:
    """Refuse names that cannot be label values: both become one on the HPA."""
    if not 1 <= len(spec.name) <= _LABEL_LENGTH:
        allowed = f"1 to {_LABEL_LENGTH} characters: it is used as a label value"
        raise WrongInput(where=where, field="metadata.name", value=spec.name, allowed=allowed)
    if len(spec.hpa_name) > _LABEL_LENGTH:
        raise WrongInput(
            where=where,
            field="spec.advanced.horizontalPodAutoscalerConfig.name",
            value=spec.hpa_name,
            allowed=f"at most {_LABEL_LENGTH} characters; set it, or shorten metadata.name",
        )


def _check_bounds(spec: ScaledObjectSpec, where: str) -> None:
    """Refuse counts that KEDA refuses; an absent minimum is 0, a given one counts as 1 or more."""
    given, idle = spec.min_replica_count, spec.idle_replica_count
    minimum = 0 if given is None else max(given, 1)
    if minimum > spec.max_replica_count:
        raise WrongInput(
            where=where,
            field="spec.minReplicaCount",
            value=given,
            allowed=f"at most maxReplicaCount ({spec.max_replica_count})",
        )
    if idle is not None and idle >= minimum:
        # KEDA prints the minimum as written (0 when absent), though it compares the derived one.
        raise TriggerRefused(
            where=where,
            field="spec.idleReplicaCount",
            value=idle,
            keda_message="ScaledObject doesn't have correct Idle/Min/Max Replica Counts "
            f"specification: IdleReplicaCount={idle} must be less than "
            f"MinReplicaCount={spec.floor}",
        )


def _whole(spec: Mapping[str, Any], key: str, default: int, low: int, where: str) -> int:
    value = _optional(spec, key, low, where)
    return default if value is None else value


def _optional(spec: Mapping[str, Any], key: str, low: int, where: str) -> int | None:
    value = spec.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= 2**31 - 1:
        allowed = f"a whole number from {low} to {2**31 - 1}"
        raise WrongInput(where=where, field=f"spec.{key}", value=value, allowed=allowed)
    return value


def _boolean(
    given: Mapping[str, Any], key: str, where: str, *, parent: str = "spec.advanced"
) -> bool:
    value = given.get(key, False)
    if not isinstance(value, bool):
        raise WrongInput(where=where, field=f"{parent}.{key}", value=value, allowed="true or false")
    return value
