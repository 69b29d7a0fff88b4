"""Parse KEDA's ScaledObject strictly: the fields of its CRD, with defaults and bounds.

A value that KEDA accepts and this autoscaler cannot do is rejected (``NotSupported``), never
ignored: a policy must not mean less here than in production.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lagbench.core.keda.object.annotations import ScalingAnnotations, parse_scaling_annotations
from lagbench.core.keda.object.checks import check_bounds, check_names
from lagbench.core.keda.object.fallback import Fallback, parse_fallback
from lagbench.core.keda.object.scaling_modifiers import ScalingModifiers, parse_scaling_modifiers
from lagbench.core.keda.object.spec import ScaledObjectSpec
from lagbench.core.keda.object.spec_parts import (
    API_VERSION,
    KIND,
    check_kind,
    read_advanced,
    read_counts,
    read_spec,
    read_target,
)
from lagbench.core.keda.object.trigger import (
    Trigger,
    check_trigger_shapes,
    check_triggers_together,
    parse_one_trigger,
)
from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.core.keda.triggers import (
    AuthenticationRef,
    ContainerVariables,
    CronTrigger,
    ExternalTrigger,
    KafkaTrigger,
    ResourceTrigger,
    TriggerParameters,
    authentication_refs,
)
from lagbench.core.kubernetes import json_value, text
from lagbench.errors import WrongInput

__all__ = [
    "API_VERSION",
    "KIND",
    "AuthenticationRef",
    "CronTrigger",
    "ExternalTrigger",
    "Fallback",
    "KafkaTrigger",
    "NotSupported",
    "ResourceTrigger",
    "ScaledObjectSpec",
    "ScalingAnnotations",
    "ScalingModifiers",
    "Trigger",
    "TriggerParameters",
    "TriggerRefused",
    "authentication_refs",
    "find_problems",
    "parse_scaled_object",
    "parse_scaling_annotations",
]

_Read = TypeVar("_Read")


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
    spec, problems = _read(manifest, where, environment, auth)
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

    ``TriggerRefused`` is the operator's, ``NotSupported`` this autoscaler's alone, the rest the
    CRD's or the webhook's.
    """
    return tuple(_read(manifest, where, environment, auth)[1])


class _Reading:
    """Reads part after part; a problem is kept, and reading continues."""

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
    environment: Mapping[str, str] | None,
    auth: Mapping[int, Mapping[str, str]] | None,
) -> tuple[ScaledObjectSpec | None, list[WrongInput]]:
    reading, manifest = _Reading(), json_value(manifest)
    environment = ContainerVariables() if environment is None else environment
    reading.part(lambda: check_kind(manifest, where))
    spec = reading.part(lambda: read_spec(manifest, where))
    if spec is None:
        return None, reading.problems
    target = reading.part(lambda: read_target(spec.get("scaleTargetRef"), where))
    counts = reading.part(lambda: read_counts(spec, where))
    fallback = reading.part(lambda: parse_fallback(spec.get("fallback"), where=where))
    found = manifest.get("metadata")
    metadata = found if isinstance(found, Mapping) else {}
    name = str(metadata.get("name") or "")
    namespace = reading.part(lambda: text(metadata, "namespace", where=where, field="metadata"))
    advanced = reading.part(lambda: read_advanced(spec.get("advanced") or {}, name, where))
    shapes = reading.part(lambda: check_trigger_shapes(spec.get("triggers"), where))
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
        # The HPA is created last, so what the API server says of it comes last.
        return None, sorted(reading.problems, key=_is_about_the_hpa)
    return ScaledObjectSpec(
        name=name,
        namespace=namespace or "default",
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


def _is_about_the_hpa(problem: WrongInput) -> bool:
    return isinstance(problem, TriggerRefused) and problem.stage == "hpa"
