"""The limits of the verdict: the field ``slos`` of a scenario.

A limit is a value, or a mapping of ``limit`` and ``level``. A limit of level ``warn`` that is
broken does not fail the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from lagbench.core.scenario.conf_limits import StrictModel

SLOS = "slos"
LEVELS = ("fail", "warn")
LIMIT, LEVEL = "limit", "level"
"""The fields of a limit with a level."""


def _schema_with_levels(schema: dict[str, Any]) -> None:
    """Add the second form of each limit, for editors."""
    for name, plain in schema["properties"].items():
        of_value = {key: plain[key] for key in plain if key not in ("default", "title")}
        parts = {LIMIT: of_value, LEVEL: {"enum": list(LEVELS)}}
        both = {"type": "object", "properties": parts, "additionalProperties": False}
        kept = {key: plain[key] for key in plain if key not in ("anyOf", "type")}
        schema["properties"][name] = {**kept, "anyOf": [of_value, both]}


class Slos(StrictModel):
    """Limits of the verdict; the defaults are the lab's table. None: reported, not judged."""

    model_config = ConfigDict(json_schema_extra=_schema_with_levels)

    reaction_seconds: float | None = Field(90, gt=0)
    drain_seconds: float | None = Field(None, gt=0, description="spike end to lag at threshold")
    lag_falls_at_full_parallelism: bool = True
    rebalance_dip_percent: float | None = Field(20, ge=0, le=100)
    rebalance_recovery_seconds: float | None = Field(5, ge=0)
    rebalance_area_seconds: float | None = Field(
        1.0, ge=0, description="work lost in a scale step, in seconds of the expected rate"
    )
    standstill_seconds: float | None = Field(
        5, gt=0, description="the longest time in which the group did nothing though work waited"
    )
    flips: int | None = Field(0, ge=0)
    pod_minutes: float | None = Field(
        None, gt=0, description="cost in pods, from the stream's start to its planned end"
    )
    lost: int | None = Field(0, ge=0)
    failed: int | None = Field(0, ge=0, description="given up by a pod, and not by poison")
    duplicated: int | None = Field(0, ge=0)
    reordered: int | None = Field(0, ge=0)
    zombies: int | None = Field(0, ge=0)
    baseline_at_floor: bool = True
    surplus_pods_idle: bool = True
    time_lag_p95_seconds: float | None = Field(None, gt=0)
    time_lag_p99_seconds: float | None = Field(None, gt=0)

    _warned: frozenset[str] = PrivateAttr(frozenset())

    @property
    def warned(self) -> frozenset[str]:
        """Names of the limits that only warn."""
        return self._warned

    @model_validator(mode="wrap")
    @classmethod
    def _with_levels(cls, data: Any, handler: ModelWrapValidatorHandler[Slos]) -> Slos:
        slos = handler(data)
        if isinstance(data, Mapping):
            split = {name: one for name, one in data.items() if isinstance(one, Mapping)}
            warned = frozenset(name for name in split if split[name].get(LEVEL) == "warn")
            slos._warned = warned  # noqa: SLF001 - of this class
        return slos

    @field_validator("*", mode="before")
    @classmethod
    def _without_level(cls, value: Any, info: ValidationInfo) -> Any:
        """Return the limit of a mapping; the default's, if it has a level alone."""
        if not isinstance(value, Mapping):
            return value
        limit = value.get(LIMIT, cls.model_fields[str(info.field_name)].default)
        is_known = set(value) <= {LIMIT, LEVEL} and value.get(LEVEL, "fail") in LEVELS
        if not is_known or (limit is None and value.get(LEVEL) == "warn"):
            allowed = "a limit, or {limit: a value, level: fail or warn}"
            raise ValueError(f"slos.{info.field_name} must be {allowed}")
        return limit

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        limits: dict[str, Any] = handler(self)
        warned = {name: {LIMIT: limits[name], LEVEL: "warn"} for name in self._warned & set(limits)}
        return limits | warned


def with_limits(slos: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits, with those that are given in their place.

    A new limit keeps the level, and a new level the limit; None takes both away.
    """
    found = dict(slos)
    for name, one in given.items():
        known = found.get(name)
        has_level = isinstance(known, Mapping) or isinstance(one, Mapping)
        if name in found and one is not None and has_level:
            old, new = (p if isinstance(p, Mapping) else {LIMIT: p} for p in (known, one))
            found[name] = {**old, **new}
        else:
            found[name] = one
    return found
