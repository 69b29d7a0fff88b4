"""A bench in memory and a run in a temporary folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_kafka_admin import FakeKafkaAdmin
from tests.fakes.fake_kube import FakeKube
from tests.fakes.policies import kafka

from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.scenario.run_names import RunNames
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.start_companions import StartRecorderOperator

RUN_ID = "quick-spike-20261121-120000-abcd"
SERVERS = "127.0.0.1:19092"
SCENARIO = {
    "name": "quick_spike",
    "description": "a spike",
    "partitions": 4,
    "profile": {
        "kind": "step",
        "rate_per_second": 100,
        "spike_mult": 10,
        "before_seconds": 5,
        "spike_hold_seconds": 10,
        "after_seconds": 5,
    },
    "policy": "lag",
}
SCALED_OBJECT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "whatever"},
    "spec": {
        "scaleTargetRef": {"name": "consumer"},
        "minReplicaCount": 2,
        "maxReplicaCount": 4,
        "triggers": [kafka(lagThreshold="100")],
    },
}
HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "whatever"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "consumer"},
        "minReplicas": 2,
        "maxReplicas": 4,
    },
}


def workload(kind: str, name: str) -> dict[str, Any]:
    """Return a manifest like those in k8s/base."""
    pod = {"containers": [{"name": name, "command": ["python"], "args": ["--kept=1"]}]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec: dict[str, Any] = {"template": template}
    if kind == "Deployment":
        spec["selector"] = {"matchLabels": {"app": name}}
    api = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}


LAG_SCALER_OBJECTS = [
    workload("Deployment", "lagbench-lag-scaler"),
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "lagbench-lag-scaler"},
        "spec": {"ports": [{"port": 6000}]},
    },
]


class FakeTelemetryLog:
    """Keeps what was sent."""

    sent: list[Any]

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        """Open nothing."""
        self.topic = topic

    def send(self, record: Any) -> None:
        """Keep it."""
        type(self).sent.append(record)

    def flush(self, timeout_seconds: float = 0) -> int:
        """Nothing waits."""
        return 0


class FakeStore(dict[str, Any]):
    """A task's state store."""

    def set(self, key: str, value: Any) -> None:
        """Keep it."""
        self[key] = value


@dataclass
class FakeLagReader:
    """Reads the world's lag while its broker is up."""

    world: World

    def offsets(self, group: str, topic: str) -> dict[int, PartitionOffsets]:
        """Return what the test has set."""
        self.world.admin.check_reachable()
        return self.world.offsets

    def lags(self, group: str, topic: str) -> dict[int, int]:
        """Return what the test has set: a total is that of one partition."""
        self.world.admin.check_reachable()
        return self.world.lags or {0: self.world.total_lag}

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class World:
    """Everything a task touches."""

    folder: RunFolder
    kube: FakeKube = field(default_factory=FakeKube)
    admin: FakeKafkaAdmin = field(default_factory=FakeKafkaAdmin)
    total_lag: int = 0
    lags: dict[int, int] = field(default_factory=dict)
    offsets: dict[int, PartitionOffsets] = field(default_factory=dict)
    stream_started_at: int | None = 1_000
    store: FakeStore = field(default_factory=FakeStore)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    @property
    def names(self) -> RunNames:
        """The run's names."""
        return RunNames(self.folder.run_id)

    @property
    def context(self) -> Any:
        """What Airflow passes to a task."""
        return {"task_state_store": self.store}

    def with_policy(self, policy: dict[str, Any]) -> None:
        """Give the run another policy."""
        self.folder.write_text(self.folder.policy, yaml.safe_dump(policy))


def execute(kind: Any, world: World, **arguments: Any) -> dict[str, Any]:
    """Run a task of the run; return its result."""
    task = kind(task_id="it", run_folder=str(world.folder.path), **arguments)
    result: dict[str, Any] = task.execute(world.context)
    return result


def start(world: World) -> None:
    """Run consumers and recorder, with the run's topics."""
    world.admin.create_topics([TopicSpec(name, 2) for name in world.names.topics])
    for kind in (RunConsumersOperator, StartRecorderOperator):
        execute(kind, world)


def change_scenario(world: World, **fields: Any) -> str:
    """Give the run's scenario other fields; return what it was before."""
    before = world.folder.read_text(world.folder.scenario)
    changed = yaml.safe_load(before) | fields
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(changed))
    return before


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Return a planned run and an empty bench."""
    from lagbench.adapters.kube import cluster_check as manifest_files
    from lagbench.results import phases
    from lagbench_airflow.hooks import kafka, kube

    folder = RunFolder.create(RUN_ID, tmp_path / "runs")
    folder.write_text(folder.scenario, yaml.safe_dump(SCENARIO))
    folder.write_json(folder.manifest, {"run_id": RUN_ID})
    world = World(folder)
    world.with_policy(SCALED_OBJECT)
    for name, kind in (("consumer", "Deployment"), ("recorder", "Deployment"), ("producer", "Job")):
        path = tmp_path / "base" / name / "workload.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(yaml.safe_dump(workload(kind, name)))
    scaler = tmp_path / "base" / "lag-scaler" / "objects.yaml"
    scaler.parent.mkdir()
    scaler.write_text(yaml.safe_dump_all(LAG_SCALER_OBJECTS))

    class FakeKafkaHook:
        def __init__(self, kafka_conn_id: str = "kafka_default") -> None:
            self.bootstrap_servers = SERVERS

        def settings(self) -> dict[str, Any]:
            return {"bootstrap.servers": SERVERS}

        def get_conn(self) -> FakeKafkaAdmin:
            return world.admin

        def open_lag_reader(self, *, awaits_transactions: bool = False) -> FakeLagReader:
            return FakeLagReader(world)

    FakeTelemetryLog.sent = []
    monkeypatch.setattr(kafka, "KafkaHook", FakeKafkaHook)
    monkeypatch.setattr(kube, "open_kube", lambda *_, **__: world.kube)
    monkeypatch.setattr(kube, "embedded_access", lambda *_: None)
    monkeypatch.setattr(kube, "settings_of_cluster", lambda *_: world.cluster)
    monkeypatch.setattr(phases, "TelemetryLog", FakeTelemetryLog)
    phases._telemetry.cache_clear()
    monkeypatch.setattr(manifest_files, "BASE", tmp_path / "base")
    monkeypatch.setattr(manifest_files, "PROJECT_ROOT", tmp_path)
    return world
