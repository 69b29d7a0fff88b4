"""The annotations of a ScaledObject that hold scaling back or force it on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from lagbench.core.keda.triggers import go_boolean

PAUSED = "autoscaling.keda.sh/paused"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
PAUSED_SCALE_IN = "autoscaling.keda.sh/paused-scale-in"
PAUSED_SCALE_OUT = "autoscaling.keda.sh/paused-scale-out"
FORCE_ACTIVATION = "autoscaling.keda.sh/force-activation"
EXCLUDED_LABELS = "scaledobject.keda.sh/hpa-excluded-labels"

_INT32 = (-(2**31), 2**31 - 1)


class ScalingAnnotations(BaseModel):
    """The annotations of an object; ``paused_replicas`` None: pausing leaves the count as it is.

    ``paused_replicas_problem`` is KEDA's message for a count that is not a number: KEDA reports it
    only after it has deleted the HPA.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_paused: bool = False
    paused_replicas: int | None = None
    paused_replicas_problem: str = ""
    scale_in_paused: bool = False
    scale_out_paused: bool = False
    forces_activation: bool = False


def parse_scaling_annotations(manifest: Mapping[str, Any]) -> ScalingAnnotations:
    """Return the annotations of a ScaledObject, whether or not its spec can be parsed."""
    metadata = manifest.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    given = found if isinstance(found, Mapping) else {}
    count, problem = _count(given.get(PAUSED_REPLICAS))
    return ScalingAnnotations(
        is_paused=PAUSED_REPLICAS in given or _is_on(given, PAUSED),
        paused_replicas=count,
        paused_replicas_problem=problem,
        scale_in_paused=_is_on(given, PAUSED_SCALE_IN),
        scale_out_paused=_is_on(given, PAUSED_SCALE_OUT),
        forces_activation=_is_on(given, FORCE_ACTIVATION),
    )


def _is_on(given: Mapping[str, Any], annotation: str) -> bool:
    """Return whether an annotation is set; a value that is not a Go boolean counts as true."""
    if annotation not in given:
        return False
    return go_boolean(str(given[annotation])) is not False


def _count(value: object) -> tuple[int | None, str]:
    if value is None:
        return None, ""
    text = str(value)
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        cause = "invalid syntax"
    elif not _INT32[0] <= int(text) <= _INT32[1]:
        cause = "value out of range"
    else:
        return int(text), ""
    return None, (
        "failed to scale target to paused replica count: failed to parse paused replica count: "
        f'strconv.ParseInt: parsing "{text}": {cause}'
    )
