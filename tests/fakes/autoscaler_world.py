"""One ScaledObject on an API in memory, with readings and a clock that a test sets: no threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lagbench.adapters.kube.followed_cluster import HPA, SCALED_OBJECT, Cluster, Manifest
from lagbench.core.keda.loop.scalers import (
    MetricReading,
    OneMetric,
    Scaler,
    ScalerFailed,
    ScalersNotBuilt,
)
from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.trigger_types import ResourceTrigger
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.programs.autoscaler.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.object_worker import Clock, TelemetryRouter, WorkerContext
from lagbench.programs.autoscaler.scaled_object_worker import ScaledObjectWorker
from tests.fakes.cluster import FakeCluster

KEY = ("n", "w")
HPA_KEY = ("n", "keda-hpa-w")


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Start long after the objects' creation."""
        self.seconds = 1_800_000_000.0

    def clock(self) -> Clock:
        """Return it as the autoscaler wants it."""
        return Clock(
            wall_ns=lambda: int(self.seconds * 1e9), monotonic_seconds=lambda: self.seconds
        )


@dataclass
class Source:
    """The values of the triggers' sources: a lag for each place, or an outage."""

    lag: int = 0
    lags: dict[int, int] = field(default_factory=dict)  # by trigger index, in place of ``lag``
    failing: set[int] = field(default_factory=set)
    fails_reading: bool = False
    fails_building: bool = False
    passwords: list[str] = field(default_factory=list)

    def scaler(self, key: tuple[str, str], trigger: Trigger) -> Scaler:
        """Build a scaler."""
        if self.fails_building:
            raise ScalersNotBuilt("no broker answers")
        if isinstance(trigger.parameters, ResourceTrigger):
            return OneMetric(trigger)
        if isinstance(trigger.parameters, KafkaTrigger):
            password = trigger.parameters.security.password
            self.passwords.append(password.get_secret_value() if password else "")
        return SourceScaler(self, trigger)

    def external_client(self, key: tuple[str, str], parameters: Any) -> Any:
        """Reject: there are no push triggers here."""
        raise AssertionError(key)


class SourceScaler(OneMetric):
    """Reads the source for one trigger."""

    def __init__(self, source: Source, trigger: Trigger) -> None:
        """Read ``source`` for ``trigger``."""
        super().__init__(trigger)
        self.source, self.index = source, trigger.index

    def read(self, metric_name: str) -> MetricReading:
        """Read the lag."""
        if self.source.fails_reading or self.index in self.source.failing:
            raise ScalerFailed("topic is gone")
        lag = self.source.lags.get(self.index, self.source.lag)
        return MetricReading((float(lag),), lag > 0)


@dataclass
class Records:
    """A telemetry log in memory."""

    sent: list[Record] = field(default_factory=list)

    def send(self, record: Record) -> None:
        """Keep it."""
        self.sent.append(record)

    def flush(self, timeout_seconds: float = 0) -> int:
        """Nothing is left."""
        return 0


@dataclass
class World:
    """One ScaledObject on one Deployment."""

    cluster: FakeCluster
    source: Source
    time: Time
    records: Records
    context: WorkerContext
    worker: ScaledObjectWorker

    def condition(self, kind: Any, key: tuple[str, str], wanted: str) -> dict[str, Any]:
        """Return a condition of an object."""
        status = self.cluster.get(kind, key).get("status") or {}
        return next((c for c in status.get("conditions", []) if c["type"] == wanted), {})

    def reasons(self) -> list[str]:
        """Return the reasons of the events about the ScaledObject, in their order."""
        return [reason for reason, _ in self.cluster.events("w")]

    def shown(self, wanted: str) -> str:
        """Return a condition of the ScaledObject as ``status:reason``."""
        found = self.condition(SCALED_OBJECT, KEY, wanted)
        return f"{found.get('status', '')}:{found.get('reason', '')}"

    def status(self) -> dict[str, Any]:
        """Return the status of the ScaledObject."""
        return dict(self.cluster.get(SCALED_OBJECT, KEY)["status"])

    def edit(self, change: dict[str, Any]) -> None:
        """Change the ScaledObject as a user does, and let the worker see it."""
        self.cluster.patch(SCALED_OBJECT, KEY, change)
        self.worker.update(self.cluster.get(SCALED_OBJECT, KEY))

    def annotate(self, **annotations: str | None) -> None:
        """Set annotations of KEDA (``paused_replicas`` for ``.../paused-replicas``)."""
        full = {
            f"autoscaling.keda.sh/{name.replace('_', '-')}": value
            for name, value in annotations.items()
        }
        self.edit({"metadata": {"annotations": full}})

    def after(self, seconds: float) -> None:
        """Let time pass and the worker step."""
        self.time.seconds += seconds
        self.worker.step()

    def hpa(self) -> Manifest:
        """Return the HPA."""
        return self.cluster.get(HPA, HPA_KEY)

    def has_hpa(self) -> bool:
        """Return whether there is an HPA."""
        return (HPA, HPA_KEY) in self.cluster.objects

    def hpa_worker(self) -> HpaWorker:
        """Return a worker for the HPA, due at once."""
        hpa = self.hpa()
        self.context.objects[HPA] = {HPA_KEY: hpa}
        worker = HpaWorker(hpa, self.context)
        worker.sync_at = self.time.seconds
        return worker


def stored(
    kind: str, name: str, version: str = "v1", *, namespace: str = "n", **rest: Any
) -> Manifest:
    """Return an object of the namespace."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def kafka(name: str = "", **metadata: str) -> dict[str, Any]:
    """Return a kafka trigger; without a name for itself and with a target of 10."""
    given = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t", **metadata}
    return {"type": "kafka", "metadata": given, **({"name": name} if name else {})}


def scaled_object(**spec: Any) -> Manifest:
    """Return a ScaledObject on the Deployment ``w``."""
    annotations = {
        "lagbench.io/run-id": "r",
        "lagbench.io/telemetry-topic": "tt",
        "lagbench.io/bootstrap-servers": "b",
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n", "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"name": "w"},
            "pollingInterval": 10,
            "triggers": [kafka()],
            **spec,
        },
    }


def world(
    manifest: Manifest,
    *,
    replicas: int | None = 1,
    through: Callable[[FakeCluster], Cluster] = lambda cluster: cluster,
) -> World:
    """Return a world with that object; ``replicas`` None: without its target.

    ``through``: what the worker's calls go through.
    """
    cluster, source, time, records = FakeCluster(), Source(), Time(), Records()
    if replicas is not None:
        cluster.scales[KEY] = replicas
    context = WorkerContext(
        through(cluster),
        source,
        clock=time.clock(),
        telemetry=TelemetryRouter(lambda _servers, _topic: records),
    )
    stored = cluster.put(manifest)
    context.objects[SCALED_OBJECT] = {KEY: stored}
    return World(cluster, source, time, records, context, ScaledObjectWorker(stored, context))
