"""Parse KEDA's ScaledObject: its shape, the rules between its fields, and each trigger.

A value that KEDA accepts and this autoscaler cannot do is rejected (``NotSupported``), never
ignored: a policy must not mean less here than in production.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, isnan
from typing import Any

from lagbench.core.hpa.hpa_object import ScaleTarget, parse_behavior
from lagbench.core.keda.formula import NotEvaluatedError
from lagbench.core.keda.object.scaled_object_rules import (
    HPA_CONFIG,
    MODIFIERS,
    SCALED_OBJECT,
    formula_of,
    hpa_name,
    number_of,
    object_refusals,
    uses_modifiers,
)
from lagbench.core.keda.object.scaled_object_spec import (
    API_VERSION,
    KIND,
    Fallback,
    ScaledObjectSpec,
    ScalingModifiers,
    Trigger,
    parse_scaling_annotations,
)
from lagbench.core.keda.triggers.trigger_authentication import AuthenticationRef, ContainerVariables
from lagbench.core.keda.triggers.trigger_parameters import (
    NotSupported,
    RefusalStage,
    TriggerRefused,
    TriggerSource,
)
from lagbench.core.keda.triggers.trigger_types import RESOURCE_TYPES, TRIGGER_TYPES, parse_trigger
from lagbench.core.kubernetes_values import DEFAULT_MAX_REPLICAS
from lagbench.core.object_schema import (
    Refusal,
    json_value,
    overflows,
    schema_refusals,
    unknown_fields,
    value_at,
)
from lagbench.errors import WrongInput

# The step of KEDA's operator that checks a rule of the webhook again.
_STAGES: Mapping[str, RefusalStage] = {
    "replica-counts": "bounds",
    "never-cached": "triggers",
    "trigger-name-twice": "triggers",
    "formula": "hpa",
}


def parse_scaled_object(
    manifest: Mapping[str, Any],
    *,
    where: str,
    environment: Mapping[str, str] | None = None,
    auth: Mapping[int, Mapping[str, str]] | None = None,
) -> ScaledObjectSpec:
    """Return the spec of a ScaledObject; ``WrongInput`` names field, value and what is allowed.

    ``environment``: the variables of the target's container; None: not known, so that a parameter
    from a variable reads ``$(NAME)``. ``auth``: the resolved parameters of each trigger with an
    ``authenticationRef``, by its index, none where nothing was found; None: not known yet, and what
    hangs on them is not checked.
    """
    spec, problems = read_scaled_object(manifest, where=where, environment=environment, auth=auth)
    if spec is None or problems:
        raise problems[0]
    return spec


def read_scaled_object(
    manifest: Mapping[str, Any],
    *,
    where: str,
    environment: Mapping[str, str] | None = None,
    auth: Mapping[int, Mapping[str, str]] | None = None,
) -> tuple[ScaledObjectSpec | None, list[WrongInput]]:
    """Return the spec, or all that is wrong in the order in which KEDA would come upon it.

    ``TriggerRefused`` is the operator's, the rest the API server's or the webhook's. With nothing
    but ``NotSupported``, which only this autoscaler raises, there is a spec: KEDA has one, too.
    """
    given = json_value(manifest)
    problems: list[WrongInput] = [
        _refused(refusal, given, where) for refusal in _shape_refusals(given)
    ]
    if problems:
        return None, problems
    spec, advanced = given["spec"], given["spec"].get("advanced") or {}
    config = advanced.get("horizontalPodAutoscalerConfig") or {}
    refusals = object_refusals(given)
    problems += [_refused(refusal, given, where) for refusal in refusals]
    known = ContainerVariables() if environment is None else environment
    triggers: list[Trigger] = []
    for index, item in enumerate(spec["triggers"]):
        secrets = None if auth is None else auth.get(index, {})
        try:
            trigger, beyond = _trigger(index, item, where, known, secrets)
            triggers.append(trigger)
            problems += [] if beyond is None else [beyond]
        except WrongInput as error:
            problems.append(error)
    problems += _hpa_problems(config.get("behavior"), where)
    if not any(refusal.code == "formula" for refusal in refusals):
        problems += _not_evaluated(spec, where)
    # The HPA is created last, so what the API server says of it comes last.
    problems.sort(key=lambda p: getattr(p, "stage", "") == "hpa")
    if not all(isinstance(problem, NotSupported) for problem in problems):
        return None, problems
    target, metadata = spec["scaleTargetRef"], given.get("metadata") or {}
    return ScaledObjectSpec(
        name=str(metadata.get("name") or ""),
        namespace=metadata.get("namespace") or "default",
        target=ScaleTarget(
            api_version=target.get("apiVersion") or "apps/v1",
            kind=target.get("kind") or "Deployment",
            name=target["name"],
        ),
        polling_interval_seconds=spec.get("pollingInterval", 30),
        cooldown_seconds=spec.get("cooldownPeriod", 300),
        initial_cooldown_seconds=spec.get("initialCooldownPeriod", 0),
        idle_replica_count=spec.get("idleReplicaCount"),
        min_replica_count=spec.get("minReplicaCount"),
        max_replica_count=spec.get("maxReplicaCount", DEFAULT_MAX_REPLICAS),
        hpa_name=hpa_name(given),
        behavior=config.get("behavior"),
        restores_replicas=advanced.get("restoreToOriginalReplicaCount", False),
        triggers=tuple(triggers),
        fallback=_fallback(spec.get("fallback")),
        modifiers=_modifiers(spec),
        annotations=parse_scaling_annotations(given),
    ), problems


def _shape_refusals(given: Mapping[str, Any]) -> Iterator[Refusal]:
    kind = f"{given.get('apiVersion')} {given.get('kind')}"
    if kind != f"{API_VERSION} {KIND}":
        yield Refusal("not-a-scaled-object", "kind", f"{API_VERSION} {KIND}")
    written = {name: value for name, value in given.items() if name != "status"}
    yield from unknown_fields(written, SCALED_OBJECT)
    yield from schema_refusals(written, SCALED_OBJECT)
    yield from overflows(written, SCALED_OBJECT)


def _refused(refusal: Refusal, manifest: Mapping[str, Any], where: str) -> WrongInput:
    value, stage = value_at(manifest, refusal.field), _STAGES.get(refusal.code)
    instead = f" ({refusal.instead})" if refusal.instead else ""
    if stage is None:
        allowed = f"{refusal.text}{instead}"
        return WrongInput(where=where, field=refusal.field, value=value, allowed=allowed)
    return TriggerRefused(
        where=where,
        field=refusal.field,
        value=value,
        keda_message=str(refusal),
        stage=stage,
        hint=refusal.instead,
    )


def _hpa_problems(behavior: Mapping[str, Any] | None, where: str) -> Iterator[TriggerRefused]:
    """Yield what the API server says of the HPA's behavior, which KEDA hands on as it is."""
    try:
        parse_behavior(behavior, where=where, field=f"{HPA_CONFIG}.behavior")
    except WrongInput as error:
        yield _hpa_refused(where, error.field, error.value, error.allowed)


def _hpa_refused(where: str, field: str, value: object, allowed: str) -> TriggerRefused:
    text = f"the API server rejects the HPA: {field}: {allowed}"
    return TriggerRefused(where=where, field=field, value=value, keda_message=text, stage="hpa")


def _not_evaluated(spec: Mapping[str, Any], where: str) -> Iterator[NotSupported]:
    """Yield what KEDA takes of scalingModifiers, and this autoscaler cannot do."""
    if not uses_modifiers(spec):
        return
    given = spec["advanced"]["scalingModifiers"]
    activation = given.get("activationTarget") or "0"
    try:
        formula_of(spec)
    except NotEvaluatedError as error:
        allowed = f"arithmetic, conditions and numeric functions ({error})"
        yield _not_supported(where, "formula", given["formula"], allowed)
    if not isfinite(number_of(given["target"])):
        yield _not_supported(where, "target", given["target"], "a finite number")
    if isnan(number_of(activation)):
        allowed = "a number (KEDA accepts this text, but then every poll fails)"
        yield _not_supported(where, "activationTarget", activation, allowed)


def _not_supported(where: str, name: str, value: str, allowed: str) -> NotSupported:
    return NotSupported(where=where, field=f"{MODIFIERS}.{name}", value=value, allowed=allowed)


def _fallback(given: Mapping[str, Any] | None) -> Fallback | None:
    if given is None:
        return None
    return Fallback(
        failure_threshold=given["failureThreshold"],
        replicas=given["replicas"],
        behavior=given.get("behavior") or "static",
    )


def _modifiers(spec: Mapping[str, Any]) -> ScalingModifiers | None:
    if not uses_modifiers(spec):
        return None
    given = spec["advanced"]["scalingModifiers"]
    is_finite = isfinite(number_of(given["target"]))
    return ScalingModifiers(
        formula=given["formula"],
        target_milli=int(number_of(given["target"]) * 1000) if is_finite else 0,
        target=given["target"],
        activation_target=number_of(given.get("activationTarget") or "0"),
        metric_type=given.get("metricType") or "AverageValue",
    )


def _trigger(
    index: int,
    given: Mapping[str, Any],
    where: str,
    environment: Mapping[str, str],
    auth: Mapping[str, str] | None,
) -> tuple[Trigger, NotSupported | None]:
    field, kind, written = f"spec.triggers[{index}]", given["type"], given.get("metricType") or ""
    login = given.get("authenticationRef")
    ref = None if login is None else AuthenticationRef.model_validate(login)
    is_resource = kind in RESOURCE_TYPES
    if written == "Utilization" and not is_resource:
        raise TriggerRefused(
            where=where,
            field=f"{field}.metricType",
            value=written,
            keda_message=f"metricType of {kind} must be AverageValue or Value",
        )
    parameters, beyond = parse_trigger(
        kind,
        TriggerSource(
            metadata=given["metadata"],
            where=where,
            field=field,
            metric_type=written,
            auth={} if ref is None else auth,
            environment=environment,
        ),
    )
    if written not in {"", "AverageValue", "Value"} and not is_resource:
        # KEDA does not look: the API server refuses the HPA.
        raise _hpa_refused(where, f"{field}.metricType", written, "AverageValue or Value")
    target_milli = None if kind not in TRIGGER_TYPES else TRIGGER_TYPES[kind].target_milli
    if target_milli is not None and target_milli(parameters) == 0:
        raise _hpa_refused(where, f"{field}.metadata", "0", "a target of half a thousandth or more")
    return Trigger(
        index=index,
        type=kind,
        name=given.get("name") or "",
        metric_type="Value" if written == "Value" else "AverageValue",
        uses_cached_metrics=bool(given.get("useCachedMetrics")),
        authentication_ref=ref,
        parameters=parameters,
    ), beyond
