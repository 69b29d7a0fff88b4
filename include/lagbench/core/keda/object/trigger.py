"""``spec.triggers`` of a ScaledObject: each entry's own fields, checked in KEDA's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers import (
    RESOURCE_TYPES,
    TRIGGER_TYPES,
    AuthenticationRef,
    ResourceTrigger,
    TriggerParameters,
    TriggerSource,
    parse_authentication_ref,
    parse_trigger,
)
from lagbench.core.kubernetes import boolean, refuse_unknown_fields, text
from lagbench.errors import WrongInput

TRIGGER_FIELDS = (
    "type",
    "name",
    "metadata",
    "authenticationRef",
    "useCachedMetrics",
    "metricType",
)
MetricType = Literal["AverageValue", "Value"]


class Trigger(BaseModel):
    """One entry of ``spec.triggers``; ``index`` is its place, part of the metric's name.

    ``metric_type`` is that of an external metric: a resource trigger has its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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


def check_trigger_shapes(triggers: object, where: str) -> list[Mapping[str, Any]]:
    """Return the entries as the CRD wants them: known fields, metadata of strings only."""
    if not isinstance(triggers, list) or not triggers:
        raise WrongInput(
            where=where, field="spec.triggers", value=triggers, allowed="at least one trigger"
        )
    return [_shape(item, where, f"spec.triggers[{index}]") for index, item in enumerate(triggers)]


def _shape(item: object, where: str, field: str) -> Mapping[str, Any]:
    trigger = refuse_unknown_fields(item, TRIGGER_FIELDS, where=where, field=field)
    for key in ("type", "name", "metricType"):
        text(trigger, key, where=where, field=field)
    boolean(trigger, "useCachedMetrics", where=where, field=field)
    metadata = trigger.get("metadata")
    if not isinstance(metadata, Mapping):
        raise WrongInput(
            where=where, field=f"{field}.metadata", value=metadata, allowed="a mapping of strings"
        )
    for key in metadata:
        text(metadata, key, where=where, field=f"{field}.metadata")
    return trigger


def check_triggers_together(triggers: Sequence[Mapping[str, Any]], where: str) -> None:
    """Reject triggers that KEDA rejects before it reads their parameters."""
    names: set[str] = set()
    for index, trigger in enumerate(triggers):
        kind, name = trigger.get("type"), trigger.get("name") or ""
        known = TRIGGER_TYPES.get(str(kind))
        may_be_cached = known is None or known.may_be_cached
        if trigger.get("useCachedMetrics") and not may_be_cached:
            raise TriggerRefused(
                where=where,
                field=f"spec.triggers[{index}].useCachedMetrics",
                value=True,
                keda_message=f'property "useCachedMetrics" is not supported for "{kind}" scaler',
                stage="triggers",
            )
        if name in names:
            raise TriggerRefused(
                where=where,
                field=f"spec.triggers[{index}].name",
                value=name,
                keda_message=f'triggerName "{name}" is defined multiple times in the '
                "ScaledObject/ScaledJob, but it must be unique",
                stage="triggers",
            )
        names |= {name} - {""}


def parse_one_trigger(
    index: int,
    trigger: Mapping[str, Any],
    *,
    where: str,
    environment: Mapping[str, str],
    auth: Mapping[str, str] | None,
    hpa_name: str,
) -> Trigger:
    """Return one entry whose shape was checked; ``auth`` None: its secrets are not known yet."""
    field = f"spec.triggers[{index}]"
    kind = str(trigger.get("type") or "")
    ref = parse_authentication_ref(
        trigger.get("authenticationRef"), where=where, field=f"{field}.authenticationRef"
    )
    written = str(trigger.get("metricType") or "")
    if kind not in RESOURCE_TYPES:
        _refuse_utilization(kind, written, where, f"{field}.metricType")
    source = TriggerSource(
        metadata=trigger["metadata"],
        where=where,
        field=field,
        metric_type=written,
        auth={} if ref is None else auth,
        environment=environment,
    )
    parameters = parse_trigger(kind, source)
    metric_type: MetricType = "Value" if written == "Value" else "AverageValue"
    problem = None
    if kind not in RESOURCE_TYPES and written not in {"", metric_type}:
        allowed = "must be either Utilization, Value, or AverageValue"
        problem = ("metricType", "type", written, allowed)
    target_milli = TRIGGER_TYPES[kind].target_milli
    if target_milli is not None and target_milli(parameters) == 0:
        # From the API server's source; no such HPA was recorded.
        name = "value" if metric_type == "Value" else "averageValue"
        problem = ("metadata", name, "0", "must be positive")
    if problem is not None:
        # KEDA does not look: the API server refuses the HPA.
        where_written, name, value, allowed = problem
        raise TriggerRefused(
            where=where,
            field=f"{field}.{where_written}",
            value=value,
            keda_message=f'HorizontalPodAutoscaler.autoscaling "{hpa_name}" is invalid: '
            f'spec.metrics[{index}].external.target.{name}: Invalid value: "{value}": {allowed}',
            stage="hpa",
        )
    return Trigger(
        index=index,
        type=kind,
        name=trigger.get("name") or "",
        metric_type=metric_type,
        uses_cached_metrics=bool(trigger.get("useCachedMetrics")),
        authentication_ref=ref,
        parameters=parameters,
    )


def _refuse_utilization(kind: str, written: str, where: str, field: str) -> None:
    if written == "Utilization":
        scaler = "external scaler" if kind in {"external", "external-push"} else "scaler"
        raise TriggerRefused(
            where=where,
            field=field,
            value=written,
            keda_message=f"error getting {scaler} metric type: 'Utilization' metric type is "
            "unsupported for external metrics, allowed values are 'Value' or 'AverageValue'",
        )
