"""``advanced.scalingModifiers``: one number made of all triggers' values by a formula.

The formula itself is read elsewhere; here is what KEDA checks around it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite, isnan, nan
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.core.kubernetes import go_float, refuse_unknown_fields, text
from lagbench.errors import WrongInput

_FIELD = "spec.advanced.scalingModifiers"
_FIELDS = ("formula", "target", "activationTarget", "metricType")
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
        """Return whether a fallback counts: KEDA reads the target as a whole number there."""
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
    for field, problem in (
        ("target" if formula else "formula", missing_problem(formula, target)),
        ("target", target_problem(target) if target else None),
    ):
        if problem is not None:
            raise TriggerRefused(
                where=where,
                field=f"{_FIELD}.{field}",
                value=known.get(field) or "",
                keda_message=problem,
                stage="hpa",
            )
    return ScalingModifiers(
        formula=formula,
        target_milli=int(_finite(target, where) * 1000),
        target=target,
        activation_target=_activation(activation, where),
        metric_type=metric_type,
    )


def missing_problem(formula: str, target: str) -> str | None:
    """Return what KEDA says when one of the two is not there."""
    if not formula:
        return "error ScalingModifiers.Formula is mandatory"
    if not target:
        return "error validating formula in ScalingModifiers\nformula is given but target is empty"
    return None


def target_problem(target: str) -> str | None:
    """Return KEDA's message for a target that is not a number above zero."""
    try:
        if not go_float(target) <= 0:
            return None
        cause = "%!w(<nil>)"  # a slip of KEDA's: there is no error to print
    except ValueError as error:
        cause = str(error)
    return (
        "error validating target in ScalingModifiers\nerror converting target for "
        f"scalingModifiers (string->float) to valid target: {cause}"
    )


def _finite(target: str, where: str) -> float:
    number = go_float(target)
    if isfinite(number):
        return number
    allowed = "a finite number (KEDA accepts this text, but no quantity can represent it)"
    raise NotSupported(where=where, field=f"{_FIELD}.target", value=target, allowed=allowed)


def _activation(given: str, where: str) -> float:
    try:
        number = go_float(given) if given else 0.0
    except ValueError:
        number = nan
    if isnan(number):
        allowed = "a number (KEDA accepts this text, but then every poll fails)"
        raise NotSupported(
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
