"""KEDA's ScaledObject: the fields of its CRD, parsed strictly, with defaults and bounds.

What KEDA would take and this autoscaler cannot do is refused (``BenchRefused``), never ignored: a
policy must not mean less here than in production.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from lagbench.core.cron_trigger import CronTrigger
from lagbench.core.external_trigger import ExternalTrigger
from lagbench.core.field_names import refuse_unknown_fields
from lagbench.core.hpa_behavior import parse_behavior
from lagbench.core.hpa_spec import ScaleTarget
from lagbench.core.kafka_trigger import KafkaTrigger
from lagbench.core.resource_trigger import ResourceTrigger
from lagbench.core.scaled_object_checks import check_bounds, check_names
from lagbench.core.scaled_object_fallback import Fallback, parse_fallback
from lagbench.core.scaled_object_fields import boolean, optional_whole, text, whole
from lagbench.core.scaled_object_triggers import (
    Trigger,
    check_trigger_shapes,
    check_triggers_together,
    parse_one_trigger,
)
from lagbench.core.scaling_annotations import ScalingAnnotations, parse_scaling_annotations
from lagbench.core.scaling_modifiers import ScalingModifiers, parse_scaling_modifiers
from lagbench.core.trigger_authentication import AuthenticationRef, authentication_refs
from lagbench.core.trigger_parameters import BenchRefused, TriggerRefused
from lagbench.core.trigger_registry import TriggerParameters
from lagbench.errors import WrongInput

__all__ = [
    "API_VERSION",
    "KIND",
    "AuthenticationRef",
    "BenchRefused",
    "CronTrigger",
    "ExternalTrigger",
    "Fallback",
    "KafkaTrigger",
    "ResourceTrigger",
    "ScaledObjectSpec",
    "ScalingAnnotations",
    "ScalingModifiers",
    "Trigger",
    "TriggerParameters",
    "TriggerRefused",
    "authentication_refs",
    "environment_container",
    "find_problems",
    "parse_scaled_object",
    "parse_scaling_annotations",
]

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
_ADVANCED_FIELDS = (
    "horizontalPodAutoscalerConfig",
    "restoreToOriginalReplicaCount",
    "scalingModifiers",
)
_HPA_CONFIG = "spec.advanced.horizontalPodAutoscalerConfig"
_Read = TypeVar("_Read")


class ScaledObjectSpec(BaseModel):
    """What a ScaledObject asks for; None where KEDA tells absent from zero."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    fallback: Fallback | None = None
    modifiers: ScalingModifiers | None = None
    annotations: ScalingAnnotations = ScalingAnnotations()

    @property
    def floor(self) -> int:
        """Return minReplicaCount as the scale loop takes it: absent is 0."""
        return self.min_replica_count or 0

    @property
    def uses_cached_metrics(self) -> bool:
        """Say whether any trigger serves the scale loop's value to the HPA."""
        return any(trigger.uses_cached_metrics for trigger in self.triggers)

    @property
    def valid_fallback(self) -> Fallback | None:
        """Return the fallback unless it is one that KEDA silently does without."""
        if self.modifiers is not None and not self.modifiers.allows_fallback:
            return None
        return self.fallback

    @property
    def has_only_resources(self) -> bool:
        """Say whether no trigger is KEDA's to poll, which counts as always active."""
        return all(trigger.is_resource for trigger in self.triggers)

    def trigger_of(self, metric_name: str) -> Trigger | None:
        """Return the trigger behind an external metric's name."""
        return next((item for item in self.triggers if item.yields(metric_name)), None)


def environment_container(manifest: Mapping[str, Any]) -> str:
    """Return the container whose environment ``...FromEnv`` reads; empty: the first one."""
    spec = manifest.get("spec")
    target = spec.get("scaleTargetRef") if isinstance(spec, Mapping) else None
    named = target.get("envSourceContainerName") if isinstance(target, Mapping) else None
    return str(named or "")


def parse_scaled_object(
    manifest: Mapping[str, Any],
    *,
    where: str,
    environment: Mapping[str, str] | None = None,
    auth: Mapping[int, Mapping[str, str]] | None = None,
) -> ScaledObjectSpec:
    """Return the spec of a ScaledObject; ``WrongInput`` names field, value and what is allowed.

    ``auth``: the resolved parameters of each trigger with an ``authenticationRef``, by its index,
    none where nothing was found. None: not known yet, and what hangs on them is not checked.
    """
    spec, problems = _read(manifest, where, environment or {}, auth)
    if problems:
        raise problems[0]
    if spec is None:  # pragma: no cover - no spec without a problem
        raise WrongInput(where=where, field="spec", value=None, allowed="a ScaledObject's spec")
    return spec


def find_problems(
    manifest: Mapping[str, Any],
    *,
    where: str,
    environment: Mapping[str, str] | None = None,
    auth: Mapping[int, Mapping[str, str]] | None = None,
) -> tuple[WrongInput, ...]:
    """Return all that is wrong, in the order in which KEDA would come upon it.

    ``TriggerRefused`` is the operator's, ``BenchRefused`` this autoscaler's alone, the rest the
    CRD's or the webhook's.
    """
    return tuple(_read(manifest, where, environment or {}, auth)[1])


class _Reading:
    """Reads part after part; what is wrong is kept, and reading goes on."""

    def __init__(self) -> None:
        self.problems: list[WrongInput] = []

    def part(self, read: Callable[[], _Read]) -> _Read | None:
        """Return what was read; None when it is wrong."""
        try:
            return read()
        except WrongInput as error:
            self.problems.append(error)
            return None


def _read(
    manifest: Mapping[str, Any],
    where: str,
    environment: Mapping[str, str],
    auth: Mapping[int, Mapping[str, str]] | None,
) -> tuple[ScaledObjectSpec | None, list[WrongInput]]:
    reading = _Reading()
    reading.part(lambda: _check_kind(manifest, where))
    spec = reading.part(
        lambda: refuse_unknown_fields(manifest.get("spec"), _SPEC_FIELDS, where=where, field="spec")
    )
    if spec is None:
        return None, reading.problems
    target = reading.part(lambda: _target(spec.get("scaleTargetRef"), where))
    counts = reading.part(lambda: _counts(spec, where))
    fallback = reading.part(lambda: parse_fallback(spec.get("fallback"), where=where))
    advanced = reading.part(lambda: _advanced(spec.get("advanced") or {}, where))
    shapes = reading.part(lambda: check_trigger_shapes(spec.get("triggers"), where))
    metadata = manifest.get("metadata") or {}
    name = str(metadata.get("name") or "")
    config = (advanced or {}).get("horizontalPodAutoscalerConfig") or {}
    hpa_name = str(config.get("name") or f"keda-hpa-{name}")
    reading.part(lambda: check_names(name, hpa_name, where))
    if counts is not None:
        reading.part(lambda: check_bounds(counts, where))
    reading.part(lambda: check_triggers_together(shapes or [], where))
    triggers = [
        reading.part(
            lambda index=index, item=item: parse_one_trigger(  # type: ignore[misc]
                index,
                item,
                where=where,
                environment=environment,
                auth=None if auth is None else auth.get(index, {}),
                hpa_name=hpa_name,
            )
        )
        for index, item in enumerate(shapes or [])
    ]
    modifiers = reading.part(
        lambda: parse_scaling_modifiers((advanced or {}).get("scalingModifiers"), where=where)
    )
    if reading.problems or target is None or counts is None or advanced is None:
        return None, reading.problems
    return ScaledObjectSpec(
        name=name,
        namespace=metadata.get("namespace") or "default",
        target=target,
        **counts,
        hpa_name=hpa_name,
        behavior=config.get("behavior"),
        restores_replicas=bool(advanced.get("restoreToOriginalReplicaCount")),
        triggers=tuple(trigger for trigger in triggers if trigger is not None),
        fallback=fallback,
        modifiers=modifiers,
        annotations=parse_scaling_annotations(manifest),
    ), []


def _check_kind(manifest: Mapping[str, Any], where: str) -> None:
    if (manifest.get("apiVersion"), manifest.get("kind")) != (API_VERSION, KIND):
        kind = f"{manifest.get('apiVersion')} {manifest.get('kind')}"
        raise WrongInput(where=where, field="kind", value=kind, allowed=f"{API_VERSION} {KIND}")


def _counts(spec: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the numbers of the spec under the names of ``ScaledObjectSpec``."""
    return {
        "polling_interval_seconds": whole(spec, "pollingInterval", default=30, low=1, where=where),
        "cooldown_seconds": whole(spec, "cooldownPeriod", default=300, low=0, where=where),
        "initial_cooldown_seconds": whole(
            spec, "initialCooldownPeriod", default=0, low=0, where=where
        ),
        "idle_replica_count": optional_whole(spec, "idleReplicaCount", low=0, where=where),
        "min_replica_count": optional_whole(spec, "minReplicaCount", low=0, where=where),
        "max_replica_count": whole(spec, "maxReplicaCount", default=100, low=1, where=where),
    }


def _advanced(advanced: object, where: str) -> Mapping[str, Any]:
    field = "spec.advanced"
    known = refuse_unknown_fields(advanced, _ADVANCED_FIELDS, where=where, field=field)
    boolean(known, "restoreToOriginalReplicaCount", where=where, field=field)
    config = refuse_unknown_fields(
        known.get("horizontalPodAutoscalerConfig") or {},
        ("name", "behavior"),
        where=where,
        field=_HPA_CONFIG,
    )
    text(config, "name", where=where, field=_HPA_CONFIG)
    parse_behavior(config.get("behavior"), where=where, field=f"{_HPA_CONFIG}.behavior")
    return known


def _target(target: object, where: str) -> ScaleTarget:
    field = "spec.scaleTargetRef"
    known = refuse_unknown_fields(target, _TARGET_FIELDS, where=where, field=field)
    if not known.get("name"):
        raise WrongInput(
            where=where, field=f"{field}.name", value=known.get("name"), allowed="a workload's name"
        )
    for key in _TARGET_FIELDS:
        text(known, key, where=where, field=field)
    return ScaleTarget(
        api_version=known.get("apiVersion") or "apps/v1",
        kind=known.get("kind") or "Deployment",
        name=known["name"],
    )
