"""The parsed spec of a ScaledObject, and its annotations that hold scaling back or force it on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lag_scaler.keda_values import go_boolean
from lagbench.core.hpa.hpa_object import ScaleTarget
from lagbench.core.keda.triggers.trigger_authentication import AuthenticationRef
from lagbench.core.keda.triggers.trigger_parameters import TriggerParameters
from lagbench.core.keda.triggers.trigger_types import ResourceTrigger
from lagbench.core.kubernetes_values import DEFAULT_MAX_REPLICAS

API_VERSION, KIND = "keda.sh/v1alpha1", "ScaledObject"

PAUSED = "autoscaling.keda.sh/paused"

PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"

PAUSED_SCALE_IN = "autoscaling.keda.sh/paused-scale-in"

PAUSED_SCALE_OUT = "autoscaling.keda.sh/paused-scale-out"

FORCE_ACTIVATION = "autoscaling.keda.sh/force-activation"

EXCLUDED_LABELS = "scaledobject.keda.sh/hpa-excluded-labels"

MetricType = Literal["AverageValue", "Value"]

_INT32 = range(-(2**31), 2**31)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScalingAnnotations(_Frozen):
    """The annotations of an object; ``paused_replicas`` None: pausing leaves the count as it is.

    ``paused_replicas_problem`` says what is wrong with a count that is not a number: KEDA reports
    it only after it has deleted the HPA.
    """

    is_paused: bool = False
    paused_replicas: int | None = None
    paused_replicas_problem: str = ""
    scale_in_paused: bool = False
    scale_out_paused: bool = False
    forces_activation: bool = False


def parse_scaling_annotations(manifest: Mapping[str, Any]) -> ScalingAnnotations:
    """Return the annotations of a ScaledObject, whether or not its spec can be parsed."""
    given = (manifest.get("metadata") or {}).get("annotations") or {}

    def is_on(name: str) -> bool:
        """Return whether it is set; a value that is not a Go boolean counts as true."""
        return name in given and go_boolean(str(given[name])) is not False

    text, count, problem = str(given.get(PAUSED_REPLICAS, "")), None, ""
    if PAUSED_REPLICAS in given:
        if re.fullmatch(r"[+-]?[0-9]+", text) and int(text) in _INT32:
            count = int(text)
        else:
            problem = f'failed to scale target to paused replica count: "{text}" must be an integer'
    return ScalingAnnotations(
        is_paused=PAUSED_REPLICAS in given or is_on(PAUSED),
        paused_replicas=count,
        paused_replicas_problem=problem,
        scale_in_paused=is_on(PAUSED_SCALE_IN),
        scale_out_paused=is_on(PAUSED_SCALE_OUT),
        forces_activation=is_on(FORCE_ACTIVATION),
    )


class Fallback(_Frozen):
    """The replicas that apply once more than ``failure_threshold`` polls have failed."""

    failure_threshold: int
    replicas: int
    behavior: Literal[
        "static",
        "currentReplicas",
        "currentReplicasIfHigher",
        "currentReplicasIfLower",
        "scalingModifiers",
    ] = "static"


class ScalingModifiers(_Frozen):
    """One number made of all triggers' values by a formula, and the target it is held against."""

    formula: str
    target_milli: int
    target: str  # as written
    activation_target: float = 0.0
    metric_type: MetricType = "AverageValue"

    @property
    def allows_fallback(self) -> bool:
        """Return whether a fallback counts: KEDA reads the target as a whole number there."""
        is_whole = bool(re.fullmatch(r"[+-]?[0-9]+", self.target))
        return is_whole and 0 < int(self.target) < 2**63


class Trigger(_Frozen):
    """One entry of ``spec.triggers``; ``index`` is its place, part of the metric's name.

    ``metric_type`` is that of an external metric: a resource trigger has its own.
    """

    index: int
    type: str
    name: str = ""
    metric_type: MetricType = "AverageValue"
    uses_cached_metrics: bool = False
    authentication_ref: AuthenticationRef | None = None
    parameters: TriggerParameters

    @property
    def metric_name(self) -> str:
        """Return the metric's name; of an external trigger what all its names begin with."""
        return self.parameters.metric_name(self.index)

    @property
    def is_resource(self) -> bool:
        """Return whether the HPA reads the pods itself, so that KEDA polls nothing."""
        return isinstance(self.parameters, ResourceTrigger)


class ScaledObjectSpec(_Frozen):
    """The spec of a ScaledObject; None where KEDA distinguishes absent from zero."""

    name: str
    namespace: str
    target: ScaleTarget
    polling_interval_seconds: int = 30
    cooldown_seconds: int = 300
    initial_cooldown_seconds: int = 0
    idle_replica_count: int | None = None
    min_replica_count: int | None = None
    max_replica_count: int = DEFAULT_MAX_REPLICAS
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
        """Return whether any trigger serves the scale loop's value to the HPA."""
        return any(trigger.uses_cached_metrics for trigger in self.triggers)

    @property
    def valid_fallback(self) -> Fallback | None:
        """Return the fallback unless it is one that KEDA silently does without."""
        if self.modifiers is not None and not self.modifiers.allows_fallback:
            return None
        return self.fallback

    @property
    def has_only_resources(self) -> bool:
        """Return whether no trigger is KEDA's to poll, which counts as always active."""
        return all(trigger.is_resource for trigger in self.triggers)
