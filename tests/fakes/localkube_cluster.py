"""A localkube without HTTP: store, controllers and node are real, the processes are not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from localkube.controllers.deployments import DeploymentController
from localkube.controllers.events import EventRecorder
from localkube.controllers.jobs import JobController
from localkube.controllers.stateful_sets import StatefulSetController
from localkube.kinds import NAMESPACE, POD, Resource
from localkube.kube_objects import JsonObject, KubeObject
from localkube.node.localkube_node import Node
from localkube.node.pod_environment import NodeEnvironment
from localkube.node.pod_logs import PodLogs
from localkube.node.pod_worker import NodeParts
from localkube.ports import PortPool
from localkube.storage.deletion import Deletion
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Change, Store

PLACE = "bench"
KILLED = 137
LABELS = {"app": "web"}


def registry_of(wall_ns: Callable[[], int] = time.time_ns) -> Registry:
    """Return an empty cluster with one namespace."""
    registry = Registry(Store(), wall_ns=wall_ns)
    registry.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")
    return registry


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
    """One namespace, in which everything but the node runs from the start."""

    def __init__(self) -> None:
        """Start empty; needs a running event loop."""
        self.registry = registry_of()
        self.store = self.registry.store
        self.deletion = Deletion(self.registry)
        self.statuses: list[JsonObject] = []  # of all pods, as a watch shows them
        self.store.subscribe(self._note)
        kinds = (DeploymentController, StatefulSetController, JobController)
        self.controllers = [kind(self.registry, self.deletion) for kind in kinds]
        self.node: Node | None = None

    def add_node(self, folder: Path) -> FakeStarter:
        """Run the pods, with processes of what is returned."""
        starter: Any = FakeStarter()
        self.node = Node(
            NodeParts(
                registry=self.registry,
                events=EventRecorder(self.registry, source="test"),
                environment=NodeEnvironment({}, folder / "kubeconfig", self.store),
                logs=PodLogs(folder, self.store),
                ports=PortPool(),
                starter=starter,
            )
        )
        return starter

    def _note(self, change: Change) -> None:
        if change.resource == POD:
            self.statuses.append(change.obj.status)

    async def settle(self) -> None:
        """Let controllers and node work until they wait for a process."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End everything."""
        for controller in self.controllers:
            controller.close()
        if self.node is not None:
            await self.node.stop_all(0)

    def create(self, resource: Resource, restart_policy: str = "Always", **spec: Any) -> None:
        """Create ``web``, with one container."""
        pod: JsonObject = {"containers": [{"name": "main", "command": ["x"]}]}
        pod["restartPolicy"] = restart_policy
        if resource != POD:
            metadata = {"labels": LABELS, "annotations": {"mine": "1"}}
            pod = {"template": {"metadata": metadata, "spec": pod}}
        manifest = {"metadata": {"name": "web"}, "spec": {**pod, **spec}}
        self.registry.create(resource, manifest, PLACE)

    def get(self, resource: Resource, name: str = "web") -> KubeObject:
        """Return one object."""
        return self.store.get(resource, PLACE, name)

    def pods(self) -> list[KubeObject]:
        """Return the pods by name."""
        return self.store.select(POD, PLACE)

    def make_ready(self) -> None:
        """Make every pod run and be ready, as a node does."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": self.registry.now()}

        def edit(obj: KubeObject) -> None:
            obj["status"] = {"phase": "Running", "conditions": [ready]}

        for pod in self.pods():
            self.registry.change(POD, *pod.key, edit)


def on_cluster(check: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run ``check`` on a cluster of its own."""

    async def run() -> None:
        cluster = Cluster()
        await check(cluster)
        await cluster.close()

    asyncio.run(run())
