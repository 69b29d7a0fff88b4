"""Define the interface of a trigger's source: metric specs and readings, for every type.

A scaler is built per trigger, is kept until it fails, and may keep state between two readings (the
offsets of excludePersistentLag). Both clocks of an object read the same scalers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, Protocol

from lagbench.core.keda.object.spec import Trigger
from lagbench.core.kubernetes.quantity import metric_milli
from lagbench.errors import NotReady

COMPOSITE_METRIC = "composite-metric"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric as the HPA gets it; a Utilization has its target in percent."""

    name: str  # with the prefix s<i>-; "cpu" or "memory" for a resource; "composite-metric"
    kind: Literal["External", "Resource"]
    target_type: Literal["AverageValue", "Value", "Utilization"]
    target_milli: int
    target_percent: int | None = None
    container_name: str = ""


@dataclass(frozen=True, slots=True)
class MetricReading:
    """The result of one poll of one metric; several values add up in the HPA."""

    values: tuple[float, ...]
    is_active: bool


@dataclass(frozen=True, slots=True)
class TargetView:
    """The scale target at one instant; ``ready_pods`` are those Running and Ready."""

    spec_replicas: int
    status_replicas: int
    ready_pods: int


class ScalerFailed(NotReady):
    """One poll of a trigger, or the question for its metric specs, failed."""


class ScalersNotBuilt(ScalerFailed):
    """A trigger's source cannot even be opened, so no trigger of the object is served."""


class Scaler(Protocol):
    """Reads one trigger's source."""

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the metrics of the trigger; ``ScalerFailed`` if its server reports none."""
        ...

    def read(self, metric_name: str) -> MetricReading:
        """Return a reading of the metric named with its prefix, or raise ``ScalerFailed``."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


ScalerBuilder = Callable[[Trigger], Scaler]


def served_milli(value: float) -> int:
    """Return a value as KEDA puts it on the wire: three decimals, nothing below zero."""
    if isfinite(value) and value >= 0 and value == int(value):
        return int(value) * 1000
    return metric_milli(value)
