"""The workers on an API in memory and with readings that a test sets: no threads, no waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.fakes.cluster import FakeCluster

from lagbench.core.keda_scaler import MetricReading, MetricSpec, ScalerFailed, ScalersNotBuilt
from lagbench.core.scaled_object import Trigger
from lagbench.core.telemetry import HpaSync, KedaPoll, Record, Scaled
from lagbench.programs.autoscaler.bench import Bench, make_bench
from lagbench.programs.autoscaler.clocks import Clock, HpaClock
from lagbench.programs.autoscaler.cluster import HPA, SCALED_OBJECT, Manifest
from lagbench.programs.autoscaler.hpa_worker import HpaWorker
from lagbench.programs.autoscaler.scaled_object_worker import ScaledObjectWorker
from lagbench.programs.autoscaler.telemetry_router import TelemetryRouter

KEY = ("n", "w")


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
    """What every trigger's source says: a lag, or that it is away."""

    lag: int = 0
    fails_reading: bool = False
    fails_building: bool = False
    built: int = 0
    secrets: list[str] = field(default_factory=list)

    def scaler(self, key: tuple[str, str], trigger: Trigger) -> SourceScaler:
        """Build a scaler."""
        if self.fails_building:
            raise ScalersNotBuilt("no broker answers")
        self.built += 1
        password = trigger.parameters.security.password
        self.secrets.append(password.get_secret_value() if password else "")
        return SourceScaler(self, trigger)

    def external_client(self, key: tuple[str, str], parameters: Any) -> Any:
        """Refuse: there are no push triggers here."""
        raise AssertionError(key)


@dataclass
class SourceScaler:
    """Reads the source for one trigger."""

    source: Source
    trigger: Trigger

    def metric_specs(self) -> list[MetricSpec]:
        """Return the trigger's one metric."""
        name, milli = self.trigger.metric_name, self.trigger.parameters.target_milli
        return [MetricSpec(name, self.trigger.index, "External", self.trigger.metric_type, milli)]

    def read(self, metric_name: str) -> MetricReading:
        """Read the lag."""
        if self.source.fails_reading:
            raise ScalerFailed("topic is gone")
        return MetricReading((float(self.source.lag),), self.source.lag > 0)

    def close(self) -> None:
        """Hold nothing."""


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
    bench: Bench
    worker: ScaledObjectWorker

    def condition(self, kind: Any, key: tuple[str, str], wanted: str) -> dict[str, Any]:
        """Return a condition of an object."""
        status = self.cluster.get(kind, key).get("status") or {}
        return next((c for c in status.get("conditions", []) if c["type"] == wanted), {})

    def hpa_worker(self) -> HpaWorker:
        """Return a worker for the HPA, due at once."""
        hpa = self.cluster.get(HPA, ("n", "keda-hpa-w"))
        self.bench.directory.hpas = {("n", "keda-hpa-w"): hpa}
        return HpaWorker(hpa, self.bench)


def scaled_object(**spec: Any) -> Manifest:
    """Return a ScaledObject on the Deployment ``w``."""
    metadata = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}
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
            "triggers": [{"type": "kafka", "metadata": metadata}],
            **spec,
        },
    }


def world(manifest: Manifest, *, replicas: int | None = 1) -> World:
    """Return a world with that object; ``replicas`` None: without its target."""
    cluster, source, time, records = FakeCluster(), Source(), Time(), Records()
    if replicas is not None:
        cluster.scales[KEY] = replicas
    bench = make_bench(
        cluster,
        clock=time.clock(),
        hpa_clock=HpaClock(15.0, first_sync_seconds=0.0),
        sources=source,
        telemetry=TelemetryRouter(lambda _servers, _topic: records),
    )
    stored = cluster.put(manifest)
    bench.directory.scaled_objects = {KEY: stored}
    return World(cluster, source, time, records, bench, ScaledObjectWorker(stored, bench))


def test_the_first_step_makes_the_hpa_and_polls() -> None:
    """After one step the HPA is there, the object is Ready, and the next poll is 10 s away."""
    here = world(scaled_object())
    here.source.lag = 25

    delay = here.worker.step()

    assert delay == pytest.approx(10)
    assert here.cluster.get(HPA, ("n", "keda-hpa-w"))["spec"]["minReplicas"] == 1
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["reason"] == "ScaledObjectReady"
    assert here.condition(SCALED_OBJECT, KEY, "Active")["status"] == "True"
    assert [type(record) for record in here.records.sent] == [KedaPoll]
    status = here.cluster.get(SCALED_OBJECT, KEY)["status"]
    assert status["originalReplicaCount"] == 1
    assert status["triggersActivity"] == {"s0-kafka-t": {"isActive": True}}


def test_lag_wakes_the_target_and_the_hpa_takes_over() -> None:
    """0 to 1 is KEDA's event, 1 to 3 the HPA's; both are in the telemetry."""
    here = world(scaled_object(), replicas=0)
    here.source.lag = 25
    here.worker.step()
    here.hpa_worker().step()

    assert here.cluster.scales[KEY] == 3
    moves = [
        (r.by, r.replicas_before, r.replicas_after)
        for r in here.records.sent
        if isinstance(r, Scaled)
    ]
    assert moves == [("keda", 0, 1), ("hpa", 1, 3)]
    text = "Scaled apps/v1.Deployment n/w from 0 to 1, triggered by s0-kafka-t"
    assert ("KEDAScaleTargetActivated", text) in here.cluster.events("w")
    sync = next(record for record in here.records.sent if isinstance(record, HpaSync))
    assert (sync.metrics, sync.proposal, sync.desired) == ({"s0-kafka-t": 25.0}, 3, 3)
    status = here.cluster.get(HPA, ("n", "keda-hpa-w"))["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (1, 3)
    assert status["currentMetrics"][0]["external"]["current"] == {"averageValue": "25"}


def test_a_failing_source_changes_nothing_and_is_no_zero() -> None:
    """The HPA says FailedGetExternalMetric, keeps its replicas, and recovers with the source."""
    here = world(scaled_object(minReplicaCount=1), replicas=4)
    here.worker.step()
    hpa = here.hpa_worker()
    here.source.fails_reading = True
    hpa.step()
    failed = here.condition(HPA, ("n", "keda-hpa-w"), "ScalingActive")
    here.source.fails_reading, here.source.lag = False, 60
    here.time.seconds += 15
    hpa.step()

    assert failed["reason"] == "FailedGetExternalMetric"
    assert here.cluster.scales[KEY] == 6
    assert any(
        reason == "FailedComputeMetricsReplicas" for reason, _ in here.cluster.events("keda-hpa-w")
    )


def test_an_unreachable_source_at_creation_makes_no_hpa_and_is_retried_after_5_and_10_s() -> None:
    """As with KEDA, nothing is built until every trigger's source answers."""
    here = world(scaled_object())
    here.source.fails_building = True
    first = here.worker.step()
    here.time.seconds += first
    second = here.worker.step()
    here.source.fails_building = False
    here.time.seconds += second
    ready_before = here.condition(SCALED_OBJECT, KEY, "Ready")
    here.worker.step()

    assert (first, second) == (pytest.approx(5), pytest.approx(10))
    assert "no broker answers" in ready_before["message"]
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["status"] == "True"
    assert here.cluster.get(HPA, ("n", "keda-hpa-w"))


def test_a_missing_target_fails_the_check_until_it_is_there() -> None:
    """A ScaledObject may be applied before its Deployment."""
    here = world(scaled_object(), replicas=None)
    delay = here.worker.step()
    failed = here.condition(SCALED_OBJECT, KEY, "Ready")
    here.cluster.scales[KEY] = 2
    here.time.seconds += delay
    here.worker.step()

    assert failed["reason"] == "ScaledObjectCheckFailed"
    assert 'deployments.apps "w" not found' in failed["message"]
    assert here.condition(SCALED_OBJECT, KEY, "Ready")["status"] == "True"


def test_the_younger_of_two_objects_on_one_target_is_refused() -> None:
    """The second ScaledObject on a Deployment names the first as its owner."""
    second = scaled_object()
    here = world(second)
    first = scaled_object()
    first["metadata"] = {
        "name": "a",
        "namespace": "n",
        "creationTimestamp": "2025-01-01T00:00:00Z",
    }
    here.bench.directory.scaled_objects = {
        **here.bench.directory.scaled_objects,
        ("n", "a"): first,
    }
    here.worker.step()

    message = here.condition(SCALED_OBJECT, KEY, "Ready")["message"]
    assert "already managed by the ScaledObject 'a'" in message


def test_a_changed_object_changes_its_hpa_in_place_and_the_same_again_does_not() -> None:
    """Only a difference in meaning is written; the scaler starts anew with its memory empty."""
    here = world(scaled_object())
    here.worker.step()
    changed = here.cluster.get(SCALED_OBJECT, KEY)
    uid = here.cluster.get(HPA, ("n", "keda-hpa-w"))["metadata"]["uid"]
    changed["spec"]["maxReplicaCount"] = 7
    here.worker.update(changed)
    here.worker.step()
    again = {**changed, "status": {}}
    here.worker.update(again)
    here.worker.step()

    hpa = here.cluster.get(HPA, ("n", "keda-hpa-w"))
    assert (hpa["spec"]["maxReplicas"], hpa["metadata"]["uid"]) == (7, uid)
    assert here.cluster.calls.count("replace HorizontalPodAutoscaler") == 1
    assert here.source.built == 2


def test_a_phase_is_fixed_drawn_or_one_period() -> None:
    """The first sync of an HPA comes after the given wait, a seeded draw, or a whole period."""
    drawn = HpaClock(15.0, seed=7)

    assert HpaClock(15.0).first_delay_seconds("n/a") == 15.0
    assert HpaClock(15.0, first_sync_seconds=4.0).first_delay_seconds("n/a") == 4.0
    assert drawn.first_delay_seconds("n/a") == HpaClock(15.0, seed=7).first_delay_seconds("n/a")
    assert drawn.first_delay_seconds("n/a") != drawn.first_delay_seconds("n/b")
    assert 0 <= drawn.first_delay_seconds("n/a") <= 15
