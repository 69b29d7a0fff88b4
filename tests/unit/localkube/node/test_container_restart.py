"""A container that will be started again leaves its pod running, for each controller."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from lagbench.localkube.controllers.deployments import DeploymentController
from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.jobs import JobController
from lagbench.localkube.controllers.services import PortPool
from lagbench.localkube.controllers.stateful_sets import StatefulSetController
from lagbench.localkube.kube_objects import JsonObject, uid_of
from lagbench.localkube.node.container_process import PodLogs
from lagbench.localkube.node.localkube_node import Node
from lagbench.localkube.node.pod_environment import (
    ContainerConfigFault,
    LaunchPlan,
    NodeEnvironment,
    inheritable,
    plan_launch,
    variable_of,
)
from lagbench.localkube.node.pod_metrics import read_sessions
from lagbench.localkube.node.pod_worker import NodeParts
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Change, Store
from lagbench.localkube.storage.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    JOB,
    NAMESPACE,
    POD,
    STATEFUL_SET,
    Resource,
)
from lagbench.programs.recorder.pod_watch import pod_seen

PLACE = "bench"

KILLED = 137

LABELS = {"app": "web"}


class FakeProcess:
    """A container's process that ends when the test says so."""

    is_forked = True

    def __init__(self, pid: int) -> None:
        """Run from now on."""
        self.pid = pid
        self.started_at_ns, self.ended_at_ns = time.time_ns(), 0
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def end(self, code: int) -> None:
        """End with an exit code."""
        if not self.exited.done():
            self.ended_at_ns = time.time_ns()
            self.exited.set_result(code)

    def kill(self) -> None:
        """End as SIGKILL ends it."""
        self.end(KILLED)

    terminate = kill


class FakeStarter:
    """Starts fake processes while its door is open; a start suspends, as a fork does."""

    def __init__(self) -> None:
        """Let processes start."""
        self.started: list[FakeProcess] = []
        self.door = asyncio.Event()
        self.door.set()

    async def start(self, plan: object, log_file: Path, stopping: asyncio.Event) -> Any:
        """Return a new process once the door is open; None when the container is stopped."""
        waits = [asyncio.create_task(event.wait()) for event in (self.door, stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if stopping.is_set():
            return None
        self.started.append(FakeProcess(1000 + len(self.started)))
        return self.started[-1]


class Cluster:
    """A store with all controllers and the node; only the processes are not real."""

    def __init__(self, folder: Path) -> None:
        """Start empty; needs a running event loop."""
        store = Store()
        self.registry, self.starter = Registry(store), FakeStarter()
        self.registry.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")
        self.statuses: list[JsonObject] = []  # of all pods, as a watch shows them
        store.subscribe(self._note)
        self.events = EventRecorder(self.registry, source="test")
        self.deletion = Deletion(self.registry)
        starter: Any = self.starter
        self.node = Node(
            NodeParts(
                registry=self.registry,
                events=self.events,
                environment=NodeEnvironment({}, folder / "kubeconfig", store),
                logs=PodLogs(folder, store),
                ports=PortPool(),
                starter=starter,
            )
        )
        parts = (self.registry, self.deletion, self.events)
        self.controllers = (
            DeploymentController(*parts),
            StatefulSetController(*parts),
            JobController(*parts),
        )

    def _note(self, change: Change) -> None:
        if change.resource == POD:
            self.statuses.append(change.obj["status"])

    async def settle(self) -> None:
        """Let the controllers and the node work until they wait for a process."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End every pod."""
        for controller in self.controllers:
            controller.close()
        await self.node.stop_all(0)

    def phases(self) -> set[str]:
        """Return every phase that a pod had."""
        return {status["phase"] for status in self.statuses}

    def pods(self) -> list[JsonObject]:
        """Return the pods by name."""
        return self.registry.store.select(POD, PLACE)

    def create(self, resource: Resource, restart_policy: str, **spec: Any) -> None:
        """Create ``web``, with one container."""
        main = {"name": "main", "command": ["x"]}
        pod: JsonObject = {"restartPolicy": restart_policy, "containers": [main]}
        if resource != POD:
            pod = {"template": {"metadata": {"labels": LABELS}, "spec": pod}}
        self.registry.create(
            resource, {"metadata": {"name": "web"}, "spec": {**pod, **spec}}, PLACE
        )

    def status(self, resource: Resource) -> JsonObject:
        """Return the status of ``web``."""
        found: JsonObject = self.registry.store.get(resource, PLACE, "web")["status"]
        return found


def on_cluster(folder: Path, check: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run ``check`` on a cluster of its own."""

    async def run() -> None:
        cluster = Cluster(folder)
        await check(cluster)
        await cluster.close()

    asyncio.run(run())


@pytest.mark.parametrize("resource", [DEPLOYMENT, STATEFUL_SET])
def test_a_killed_container_costs_its_workload_no_pod(resource: Resource, tmp_path: Path) -> None:
    """Killed and not started yet, its pod is Running, counts as a replica and is not replaced."""

    async def check(cluster: Cluster) -> None:
        cluster.create(resource, "Always", selector={"matchLabels": LABELS}, replicas=1)
        await cluster.settle()
        before = [uid_of(pod) for pod in cluster.pods()]
        cluster.starter.door.clear()
        cluster.starter.started[0].kill()
        await cluster.settle()

        assert [uid_of(pod) for pod in cluster.pods()] == before
        assert cluster.pods()[0]["status"]["phase"] == "Running"
        assert cluster.status(resource)["replicas"] == 1
        assert cluster.status(resource)["readyReplicas"] == 0
        seen = pod_seen(cluster.pods()[0], at=1, source="recorder", gone_at=None)
        assert (seen.exit_code, seen.exit_reason) == (KILLED, "Error")
        assert seen.containers_ended == 1

        cluster.starter.door.set()
        await cluster.settle()
        assert [uid_of(pod) for pod in cluster.pods()] == before
        container = cluster.pods()[0]["status"]["containerStatuses"][0]
        assert "running" in container["state"]
        assert container["restartCount"] == 1
        assert container["lastState"]["terminated"]["exitCode"] == KILLED
        seen = pod_seen(cluster.pods()[0], at=2, source="recorder", gone_at=None)
        assert seen.containers_ended == 1
        assert cluster.phases() == {"Pending", "Running"}

    on_cluster(tmp_path, check)


def test_a_job_takes_the_success_of_a_restarted_container(tmp_path: Path) -> None:
    """With OnFailure the pod fails once, runs again and succeeds: the job has no failed pod."""

    async def check(cluster: Cluster) -> None:
        cluster.create(JOB, "OnFailure")
        await cluster.settle()
        cluster.starter.started[0].end(1)
        await cluster.settle()
        cluster.starter.started[1].end(0)
        await cluster.settle()

        status = cluster.status(JOB)
        assert (status["succeeded"], status["failed"]) == (1, 0)
        assert [entry["type"] for entry in status["conditions"]] == ["Complete"]

    on_cluster(tmp_path, check)


def test_a_pod_whose_init_container_starts_again_has_not_failed(tmp_path: Path) -> None:
    """An init container that failed once keeps the pod Pending, and the next one then runs."""

    async def check(cluster: Cluster) -> None:
        first = {"name": "first", "command": ["x"]}
        cluster.create(POD, "Always", initContainers=[first])
        await cluster.settle()
        cluster.starter.started[0].end(1)
        await cluster.settle()
        cluster.starter.started[1].end(0)
        await cluster.settle()

        assert cluster.pods()[0]["status"]["phase"] == "Running"
        assert cluster.phases() == {"Pending", "Running"}

    on_cluster(tmp_path, check)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [("Never", 1, "Failed"), ("Never", 0, "Succeeded"), ("OnFailure", 0, "Succeeded")],
)
def test_the_last_end_of_a_container_ends_its_pod(
    policy: str, code: int, phase: str, tmp_path: Path
) -> None:
    """Where the policy starts it no more, the first status that shows the end has the phase."""

    async def check(cluster: Cluster) -> None:
        cluster.create(POD, policy)
        await cluster.settle()
        cluster.starter.started[0].end(code)
        await cluster.settle()

        ended = [
            status["phase"]
            for status in cluster.statuses
            if "terminated" in status.get("containerStatuses", [{"state": {}}])[0]["state"]
        ]
        assert ended == [phase]

    on_cluster(tmp_path, check)


def test_a_container_that_is_stopped_before_its_restart_keeps_its_exit_code(tmp_path: Path) -> None:
    """Deleted between the end and the next start, the pod ends with what its container said."""

    async def check(cluster: Cluster) -> None:
        cluster.create(POD, "Always", terminationGracePeriodSeconds=1)
        await cluster.settle()
        cluster.starter.door.clear()
        cluster.starter.started[0].end(3)
        await cluster.settle()
        cluster.deletion.delete(POD, cluster.pods()[0])
        await cluster.settle()

        assert cluster.pods() == []
        last = cluster.statuses[-1]
        assert last["phase"] == "Failed"
        assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3

    on_cluster(tmp_path, check)


def test_secrets_and_airflow_settings_are_not_inherited() -> None:
    """Pods get the plain variables, nothing that names a secret, and our python first on PATH."""
    given = {
        "HOME": "/home/x",
        "PATH": "/usr/bin",
        "API_TOKEN": "t",
        "db_password": "p",
        "AWS_SECRET_ACCESS_KEY": "k",
        "AIRFLOW_CONN_KAFKA_DEFAULT": "c",
        "AIRFLOW__CORE__FERNET_KEY": "f",
        "AIRFLOW_HOME": "a",
        "MYSQL_PWD": "p",
        "DATABASE_URL": "postgres://u:p@db/x",
        "HTTPS_PROXY": "http://u:p@proxy",
        "SENTRY_DSN": "https://k@sentry/1",
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092",
    }

    kept = inheritable(given)

    assert set(kept) == {"HOME", "PATH", "KAFKA_BOOTSTRAP_SERVERS", "PYTHONUNBUFFERED"}
    assert kept["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"


def test_a_port_is_reported_in_a_variable_of_its_name() -> None:
    """Dashes become underscores, letters upper case."""
    assert variable_of("PORT", "metrics-http") == "PORT_METRICS_HTTP"


def test_usage_is_summed_per_session(tmp_path: Path) -> None:
    """Processes of one session add up, children waited for included; odd names do no harm."""
    for pid, command, session, ticks, pages in (
        (10, "python", 10, (100, 50, 25, 25), 3),
        (11, "a) b (c", 10, (100, 0, 0, 0), 1),
        (12, "other", 12, (1, 0, 0, 0), 1),
    ):
        folder = tmp_path / str(pid)
        folder.mkdir()
        before = f"{pid} ({command}) S 1 {session} {session} 0 -1 4194304 0 0 0 0 "
        after = " ".join(map(str, ticks)) + f" 20 0 1 0 5 1000 {pages} 0"
        (folder / "stat").write_text(before + after)
    (tmp_path / "meminfo").write_text("not a process")

    sessions = read_sessions(tmp_path)

    ticks_per_second = os.sysconf("SC_CLK_TCK")
    assert sessions[10].cpu_seconds == 300 / ticks_per_second
    assert sessions[10].memory_bytes == 4 * os.sysconf("SC_PAGE_SIZE")
    assert set(sessions) == {10, 12}


CONTAINER: dict[str, Any] = {
    "name": "orders",
    "command": ["python", "orders.py", "--config=$(VOLUME_APP_CONFIG)/a.yaml"],
    "env": [{"name": "LISTEN", "value": "127.0.0.1:$(PORT_HTTP)"}],
    "volumeMounts": [
        {"name": "app-config", "mountPath": "/etc/app"},
        {"name": "cache", "mountPath": "/var/cache"},
    ],
}


def planned(folder: Path, store: Store) -> LaunchPlan:
    """Return the plan of the container in a pod with four volumes."""
    volumes = [
        {"name": "app-config", "configMap": {"name": "app"}},
        {"name": "cache", "emptyDir": {}},
        {"name": "not-mounted", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    pod = {
        "metadata": {"name": "orders-1", "namespace": "lagbench", "uid": "u"},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [CONTAINER],
            "volumes": volumes,
        },
    }
    node = NodeEnvironment({}, Path("/kubeconfig"), store)
    return plan_launch(pod, CONTAINER, {"http": 40_001}, node, folder)


def test_a_mounted_folder_is_in_a_variable_and_has_the_config_maps_files(tmp_path: Path) -> None:
    """EmptyDir and ConfigMap are folders of the pod; other volumes are none."""
    store = Store()
    metadata = {"name": "app", "namespace": "lagbench", "uid": "c"}
    store.insert(CONFIG_MAP, {"metadata": metadata, "data": {"a.yaml": "currency: EUR"}})

    plan = planned(tmp_path, store)

    config = tmp_path / "volumes" / "app-config"
    assert plan.command[-1] == f"--config={config}/a.yaml"
    assert (config / "a.yaml").read_text() == "currency: EUR"
    assert Path(plan.environment["VOLUME_CACHE"]).is_dir()
    assert not {"VOLUME_NOT_MOUNTED", "VOLUME_DATA"} & set(plan.environment)


def test_a_variable_may_hold_the_pods_port(tmp_path: Path) -> None:
    """The port is known before the variables are read."""
    store = Store()
    store.insert(
        CONFIG_MAP, {"metadata": {"name": "app", "namespace": "lagbench", "uid": "c"}, "data": {}}
    )

    assert planned(tmp_path, store).environment["LISTEN"] == "127.0.0.1:40001"


def test_a_missing_config_map_keeps_the_container_from_starting(tmp_path: Path) -> None:
    """As the kubelet does: the container waits with the reason."""
    with pytest.raises(ContainerConfigFault, match='"app"'):
        planned(tmp_path, Store())
