"""Define the state of the HPA's control loop: settings, history, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lagbench.core.hpa.behavior import ScaleEvents
from lagbench.core.kubernetes.control_loops import HPA_TOLERANCE

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class HpaSettings:
    """Flags of the controller; the defaults are those of kube-controller-manager."""

    tolerance: float = HPA_TOLERANCE
    downscale_stabilization_seconds: int = 300


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A proposal before any limit, with the instant of its sync."""

    replicas: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class HpaHistory:
    """The controller's memory of one HPA object; a new object starts with an empty one."""

    recommendations: tuple[Recommendation, ...] = ()
    events: ScaleEvents = field(default_factory=ScaleEvents)


@dataclass(frozen=True, slots=True)
class Condition:
    """A status condition of an HPA or a ScaledObject."""

    type: str
    status: str  # "True", "False" or "Unknown"
    reason: str = ""
    message: str = ""


def put_in_place_of_outdated(
    items: tuple[_Item, ...], new: _Item, outdated: Sequence[int]
) -> tuple[_Item, ...]:
    """Replace the last outdated entry, or append when none is outdated."""
    if not outdated:
        return (*items, new)
    return (*items[: outdated[-1]], new, *items[outdated[-1] + 1 :])
