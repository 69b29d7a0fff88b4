"""Sources of kafka triggers that a test breaks as it likes, and KEDA's runtime over them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lagbench.core.keda.loop.keda_runtime import KedaObject, Tick
from lagbench.core.keda.loop.scalers import (
    MetricReading,
    MetricSpec,
    ScalerFailed,
    ScalersNotBuilt,
    TargetView,
    trigger_metric_spec,
)
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import Trigger

SECOND = 1_000_000_000
A, B = "s0-kafka-a", "s1-kafka-b"


@dataclass
class Source:
    """A trigger's source: its value, and how it is broken."""

    value: float = 50.0
    is_active: bool | None = None
    is_read_broken: bool = False
    is_build_broken: bool = False
    are_specs_broken: bool = False
    builds: int = 0


@dataclass
class Sources:
    """All sources of a test, by the trigger's index; builds scalers over them."""

    by_index: dict[int, Source] = field(default_factory=lambda: {0: Source(), 1: Source()})

    def build(self, trigger: Trigger) -> FakeScaler:
        """Build a scaler, or fail as a broker that is down does."""
        source = self.by_index[trigger.index]
        source.builds += 1
        if source.is_build_broken:
            raise ScalersNotBuilt("error creating kafka client")
        spec = trigger_metric_spec(trigger)
        if spec is None:
            raise ScalersNotBuilt(f"{trigger.type} has no source here")
        return FakeScaler(source, spec)


class FakeScaler:
    """Reads a source."""

    def __init__(self, source: Source, spec: MetricSpec) -> None:
        """Read ``source`` as the metric of ``spec``."""
        self._source, self._spec = source, spec

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the trigger's metric."""
        if self._source.are_specs_broken:
            raise ScalerFailed("rpc error")
        return (self._spec,)

    def read(self, metric_name: str) -> MetricReading:
        """Return the source's value."""
        source = self._source
        if source.is_read_broken or metric_name != self._spec.name:
            raise ScalerFailed("no such topic")
        is_active = source.value > 0 if source.is_active is None else source.is_active
        return MetricReading((source.value,), is_active)

    def close(self) -> None:
        """Hold nothing."""


def keda(
    sources: Sources, *, triggers: int = 1, cached: bool = False, metric: str = "", **spec: Any
) -> KedaObject:
    """Return the runtime of an object with one or two kafka triggers at 10 per pod."""
    items = [
        {
            "type": "kafka",
            "name": name,
            "useCachedMetrics": cached,
            **({"metricType": metric} if metric else {}),
            "metadata": {"bootstrapServers": "k:9092", "consumerGroup": "g", "topic": name},
        }
        for name in ("a", "b")[:triggers]
    ]
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {"scaleTargetRef": {"name": "w"}, "triggers": items, **spec},
    }
    return KedaObject(parse_scaled_object(manifest, where="t"), sources.build, created_at_ns=0)


def target(replicas: int = 3, ready: int = 3) -> TargetView:
    """Return a target whose pods are all there."""
    return TargetView(replicas, replicas, ready)


def read(runtime: KedaObject, name: str = A, replicas: int = 3) -> int | str:
    """Return what an HPA sync gets, or the error's text."""
    try:
        return runtime.read_for_hpa(name, target(replicas))
    except ScalerFailed as error:
        return str(error)


def tick(runtime: KedaObject, at: float = 100.0, replicas: int = 3, *, hpa: bool = True) -> Tick:
    """Do one round of the loop."""
    return runtime.tick(target(replicas), round(at * SECOND), is_hpa_active=hpa)
