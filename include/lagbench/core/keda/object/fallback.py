"""Parse the fallback of a ScaledObject, for times in which a trigger's source fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

from lagbench.core.kubernetes import refuse_unknown_fields, required_whole
from lagbench.errors import WrongInput

FallbackBehavior = Literal[
    "static",
    "currentReplicas",
    "currentReplicasIfHigher",
    "currentReplicasIfLower",
    "scalingModifiers",
]
BEHAVIORS: tuple[FallbackBehavior, ...] = get_args(FallbackBehavior)


class Fallback(BaseModel):
    """The replicas that apply once more than ``failure_threshold`` polls have failed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    failure_threshold: int
    replicas: int
    behavior: FallbackBehavior = "static"


def parse_fallback(given: object, *, where: str) -> Fallback | None:
    """Return ``spec.fallback``; None when it is absent."""
    if given is None:
        return None
    field = "spec.fallback"
    known: Mapping[str, object] = refuse_unknown_fields(
        given, ("failureThreshold", "replicas", "behavior"), where=where, field=field
    )
    wanted = known.get("behavior") or "static"
    behavior = next((item for item in BEHAVIORS if item == wanted), None)
    if behavior is None:
        raise WrongInput(
            where=where, field=f"{field}.behavior", value=wanted, allowed=", ".join(BEHAVIORS)
        )
    return Fallback(
        failure_threshold=required_whole(known, "failureThreshold", where=where, field=field),
        replicas=required_whole(known, "replicas", where=where, field=field),
        behavior=behavior,
    )
