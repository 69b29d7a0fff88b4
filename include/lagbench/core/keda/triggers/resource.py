"""The ``cpu`` and ``memory`` triggers: KEDA only passes them on to the HPA."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.parameters import ParameterReader, ParameterSources
from lagbench.core.keda.triggers.trigger_type import TriggerParameters, TriggerSource, TriggerType
from lagbench.core.kubernetes import parse_milli
from lagbench.errors import WrongInput

Resource = Literal["cpu", "memory"]
_INT32 = (-(2**31), 2**31 - 1)
_REMOVED = "The 'type' setting is DEPRECATED and is removed in v2.18 - Use 'metricType' instead."


class ResourceTrigger(TriggerParameters):
    """Parameters of one cpu or memory trigger; ``container_name`` empty: the whole pod."""

    resource: Resource
    target_type: Literal["Utilization", "AverageValue"]
    target_percent: int | None = None
    target_milli: int | None = None
    container_name: str = ""

    def metric_name(self, trigger_index: int) -> str:  # noqa: ARG002 - as of the other triggers
        """Return the resource's name: resource metrics carry no index."""
        return self.resource


def parse_resource_trigger(
    resource: Resource,
    metadata: Mapping[str, str],
    *,
    metric_type: str,
    where: str = "trigger",
    field: str = "metadata",
) -> ResourceTrigger:
    """Return the trigger's parameters; ``TriggerRefused`` with KEDA's message if rejected."""
    reader = ParameterReader(ParameterSources(metadata))
    reader.refuse_deprecated("type", f"scaler {resource} info: {_REMOVED}")
    value = reader.required_text("value", order=("metadata",))
    container = reader.text("containerName")
    percent = milli = None
    problem = "\n".join(reader.errors)
    if not problem and metric_type == "Utilization":
        percent, problem = _int32(value)
    elif not problem and metric_type == "AverageValue":
        milli = _amount(value, where, f"{field}.value")
    elif not problem:
        problem = (
            f"unknown metric type: {metric_type}, allowed values are 'Utilization' or "
            "'AverageValue'"
        )
    if problem:
        raise TriggerRefused(
            where=where,
            field=field,
            value=dict(metadata),
            keda_message=f"error parsing {resource} metadata: {problem}",
        )
    return ResourceTrigger(
        resource=resource,
        target_type="AverageValue" if percent is None else "Utilization",
        target_percent=percent,
        target_milli=milli,
        container_name=container,
    )


def _int32(text: str) -> tuple[int | None, str]:
    """Return a percentage, or what Go says of a text that is none."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None, f'strconv.ParseInt: parsing "{text}": invalid syntax'
    number = int(text)
    if not _INT32[0] <= number <= _INT32[1]:
        return None, f'strconv.ParseInt: parsing "{text}": value out of range'
    return number, ""


def _amount(text: str, where: str, field: str) -> int:
    try:
        return parse_milli(text, where=where, field=field)
    except WrongInput as error:
        # KEDA panics on such a text; the operator reports the panic with its stack.
        raise WrongInput(
            where=where, field=field, value=text, allowed="a Kubernetes quantity such as 100m"
        ) from error


def _type_of(resource: Resource) -> TriggerType[ResourceTrigger]:
    def parse(source: TriggerSource) -> ResourceTrigger:
        return parse_resource_trigger(
            resource,
            source.metadata,
            metric_type=source.metric_type,
            where=source.where,
            field=f"{source.field}.metadata",
        )

    return TriggerType(resource, parse, is_resource=True, may_be_cached=False, outage="none")


CPU, MEMORY = _type_of("cpu"), _type_of("memory")
