"""The ``behavior`` that a ScaledObject hands on to its HPA, and what the API server says of it.

The CRD checks the types only. Limits are found out when KEDA creates the HPA, so a wrong number is
the operator's error, not one at the time of applying.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.hpa import parse_behavior
from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.kubernetes import refuse_unknown_fields, text
from lagbench.errors import WrongInput

_CONFIG = "spec.advanced.horizontalPodAutoscalerConfig"
_HIGHEST = {"periodSeconds": 1800, "stabilizationWindowSeconds": 3600}
_CHOICES = {"selectPolicy": ("Disabled", "Max", "Min"), "type": ("Percent", "Pods")}


def check_hpa_config(given: object, *, where: str, scaled_object: str) -> Mapping[str, Any]:
    """Return ``horizontalPodAutoscalerConfig`` once its fields are known and allowed."""
    config = refuse_unknown_fields(given or {}, ("name", "behavior"), where=where, field=_CONFIG)
    hpa_name = text(config, "name", where=where, field=_CONFIG) or f"keda-hpa-{scaled_object}"
    try:
        parse_behavior(config.get("behavior"), where=where, field=f"{_CONFIG}.behavior")
    except WrongInput as error:
        said = _said_of(error)
        if not said:
            raise
        path = error.field.replace(_CONFIG, "spec", 1)
        raise TriggerRefused(
            where=where,
            field=error.field,
            value=error.value,
            keda_message=f'HorizontalPodAutoscaler.autoscaling "{hpa_name}" is invalid: '
            f"{path}: {said}",
            stage="hpa",
            hint=error.allowed,
        ) from error
    return config


def _said_of(error: WrongInput) -> str:
    """Return the API server's words on a value of the right type; empty for any other error."""
    key, value = error.field.rpartition(".")[2], error.value
    if key in _CHOICES and isinstance(value, str):
        listed = ", ".join(f'"{choice}"' for choice in _CHOICES[key])
        return f'Unsupported value: "{value}": supported values: {listed}'
    if isinstance(value, bool) or not isinstance(value, int):
        return ""
    if key in _HIGHEST and value > _HIGHEST[key]:
        return f"Invalid value: {value}: must be less than or equal to {_HIGHEST[key]}"
    if key == "stabilizationWindowSeconds":
        return f"Invalid value: {value}: must be greater than or equal to zero"
    if key in {"periodSeconds", "value"} and value <= 0:
        return f"Invalid value: {value}: must be greater than zero"
    return ""
