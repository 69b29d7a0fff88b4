"""``advanced.scalingModifiers``: one number made of all triggers' values by a formula.

The formula itself is read elsewhere; here is what KEDA checks around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.field_names import refuse_unknown_fields
from lagbench.core.scaled_object_fields import text
from lagbench.core.trigger_refusals import BenchRefused, TriggerRefused
from lagbench.errors import WrongInput

_FIELD = "spec.advanced.scalingModifiers"
_FIELDS = ("formula", "target", "activationTarget", "metricType")
_GO_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_GO_INTEGER = re.compile(r"[+-]?[0-9]+")


class ScalingModifiers(BaseModel):
    """The formula, and the target that its result is held against."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    formula: str
    target_milli: int
    target: str  # as written
    activation_target: float = 0.0
    metric_type: Literal["AverageValue", "Value"] = "AverageValue"

    @property
    def allows_fallback(self) -> bool:
        """Say whether a fallback counts at all: KEDA reads the target as a whole number there."""
        is_whole = bool(_GO_INTEGER.fullmatch(self.target))
        return is_whole and 0 < int(self.target) < 2**63


def parse_scaling_modifiers(given: object, *, where: str) -> ScalingModifiers | None:
    """Return ``advanced.scalingModifiers``; None when it says nothing."""
    if given is None:
        return None
    known = refuse_unknown_fields(given, _FIELDS, where=where, field=_FIELD)
    formula, target, activation = (
        text(known, key, where=where, field=_FIELD)
        for key in ("formula", "target", "activationTarget")
    )
    metric_type = _metric_type(known, where)
    if not any((formula, target, activation, known.get("metricType"))):
        return None
    if not formula:
        raise _refused(where, "formula", formula, "error ScalingModifiers.Formula is mandatory")
    if not target:
        message = "error validating formula in ScalingModifiers\nformula is given but target is "
        raise _refused(where, "target", target, f"{message}empty")
    number = _target(target, where)
    return ScalingModifiers(
        formula=formula,
        target_milli=int(number * 1000),
        target=target,
        activation_target=_activation(activation, where),
        metric_type=metric_type,
    )


def go_float(text: str) -> float | None:
    """Return what Go reads as a decimal number; None when it reads nothing."""
    return float(text) if _GO_FLOAT.fullmatch(text) else None


def _target(target: str, where: str) -> float:
    number = go_float(target)
    if number is not None and 0 < number < float("inf"):
        return number
    # KEDA appends Go's error, which is none for a number that is merely not positive.
    cause = f'strconv.ParseFloat: parsing "{target}": invalid syntax'
    message = (
        "error validating target in ScalingModifiers\nerror converting target for "
        f"scalingModifiers (string->float) to valid target: "
        f"{cause if number is None else '%!w(<nil>)'}"
    )
    raise _refused(where, "target", target, message)


def _activation(given: str, where: str) -> float:
    number = go_float(given) if given else 0.0
    if number is None or number != number:  # noqa: PLR0124 - true of NaN alone
        allowed = "a number (KEDA takes this text and then never gets through a poll)"
        raise BenchRefused(
            where=where, field=f"{_FIELD}.activationTarget", value=given, allowed=allowed
        )
    return number


def _metric_type(known: Mapping[str, Any], where: str) -> Literal["AverageValue", "Value"]:
    given = known.get("metricType") or "AverageValue"
    if given == "Value":
        return "Value"
    if given != "AverageValue":
        raise WrongInput(
            where=where, field=f"{_FIELD}.metricType", value=given, allowed="AverageValue, Value"
        )
    return "AverageValue"


def _refused(where: str, field: str, value: object, message: str) -> TriggerRefused:
    return TriggerRefused(
        where=where, field=f"{_FIELD}.{field}", value=value, keda_message=message, stage="hpa"
    )
