"""The value that KEDA's prometheus scaler takes from an answer of the query API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite, isinf, isnan
from typing import Any

from lagbench.core.keda.loop.scaler import MetricReading, ScalerFailed
from lagbench.core.keda.triggers.prometheus import PrometheusTrigger

# What stands for a sample without a value; ignoreNullValues does not look at it.
_NULL = -1.0
_LOST = "prometheus metrics 'prometheus' target may be lost, the {} is empty"


def read_answer(trigger: PrometheusTrigger, status: int, body: bytes) -> MetricReading:
    """Return what one poll says; ``ScalerFailed`` when the answer fails it.

    ``status`` in the body is not looked at: an error of Prometheus with HTTP 200 has no result.
    """
    if not 200 <= status <= 299:
        raise ScalerFailed(f"prometheus query api returned error. status: {status}")
    value, is_active = trigger.reading(_value(trigger, _result(body)))
    return MetricReading((value,), is_active)


def _value(trigger: PrometheusTrigger, result: list[Any]) -> float:
    if not result:
        return _null(trigger, _LOST.format("result"))
    if len(result) > 1:
        raise ScalerFailed(f"prometheus query {trigger.query} returned multiple elements")
    pair = _typed(_member(_typed(result[0], Mapping, "a series"), "value"), list, "a value") or []
    if not pair:
        return _null(trigger, _LOST.format("value list"))
    if len(pair) < 2:
        raise ScalerFailed(f"prometheus query {trigger.query} didn't return enough values")
    if pair[1] is None:
        return _NULL
    if not isinstance(pair[1], str):
        # KEDA's scaler panics there.
        raise ScalerFailed(f"the value of a sample is not a text: {json.dumps(pair[1])}")
    try:
        value = _number(pair[1])
    except ValueError as error:
        raise ScalerFailed(f"the value of a sample is no number: {pair[1]}") from error
    if isfinite(value):
        return value
    shown = "NaN" if isnan(value) else f"{value:+}".replace("inf", "Inf")
    return _null(trigger, f"prometheus query returns {shown}")


def _number(text: str) -> float:
    """Return a number as Go reads it: without blanks, in hexadecimal too, none out of range."""
    value = float.fromhex(text) if "0x" in text.lower() else float(text)
    if text != text.strip() or (isinf(value) and "inf" not in text.lower()):
        raise ValueError(text)
    return value


def _null(trigger: PrometheusTrigger, problem: str) -> float:
    if trigger.ignore_null_values:
        return 0.0
    raise ScalerFailed(problem)


def _result(body: bytes) -> list[Any]:
    """Return the series of an answer; what is null or absent has none."""
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise ScalerFailed(f"the answer is not JSON: {error}") from error
    document = _typed(answer, Mapping, "the answer")
    _typed(_member(document, "status"), str, "status")
    data = _typed(_member(document, "data"), Mapping, "data")
    _typed(_member(data, "resultType"), str, "resultType")
    result = _typed(_member(data, "result"), list, "result") or []
    for series in result:
        _typed(_member(_typed(series, Mapping, "a series"), "metric"), Mapping, "metric")
    return result


def _member(found: Mapping[str, Any] | None, name: str) -> Any:
    """Return a member as Go's decoder finds it: in any case, and the last of several."""
    fitting = [value for key, value in (found or {}).items() if key.lower() == name.lower()]
    return fitting[-1] if fitting else None


def _typed(found: Any, kind: type, what: str) -> Any:
    if found is not None and not isinstance(found, kind):
        raise ScalerFailed(f"the answer is none of Prometheus: {what} is {json.dumps(found)[:60]}")
    return found
