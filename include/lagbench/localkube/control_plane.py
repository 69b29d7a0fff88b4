"""Assemble the control plane: store, API, controllers, node."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lagbench.adapters.process.processes import GroupReaper
from lagbench.localkube.api.app import ApiServer
from lagbench.localkube.api.writes import Writes
from lagbench.localkube.controllers.deployments import DeploymentController
from lagbench.localkube.controllers.event_expiry import EventExpiry
from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.jobs import JobController
from lagbench.localkube.controllers.port_pool import PortPool
from lagbench.localkube.controllers.services import ServiceForwarder
from lagbench.localkube.controllers.stateful_sets import StatefulSetController
from lagbench.localkube.node.container_process import ContainerStarter
from lagbench.localkube.node.node import Node
from lagbench.localkube.node.pod_environment import NodeEnvironment, inheritable
from lagbench.localkube.node.pod_logs import PodLogs
from lagbench.localkube.node.pod_metrics import PodMetrics
from lagbench.localkube.node.pod_signals import PodSignals
from lagbench.localkube.node.pod_worker import NodeParts
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import NAMESPACE
from lagbench.localkube.storage.store import Store
from lagbench.localkube.storage.watch import Watches
from lagbench.localkube.warm_start.client import WarmInterpreter


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The running parts of one cluster."""

    store: Store
    api: ApiServer
    node: Node
    deployments: DeploymentController
    stateful_sets: StatefulSetController
    jobs: JobController
    services: ServiceForwarder
    event_expiry: EventExpiry
    reaper: GroupReaper
    warm: WarmInterpreter

    async def stop_pods(self, limit_seconds: float) -> None:
        """Stop all pods gracefully; no controller replaces them."""
        self.deployments.close()
        self.stateful_sets.close()
        self.jobs.close()
        await self.node.stop_all(limit_seconds)
        self.services.close()


def build(state_dir: Path, *, token: str, first_version: int) -> ControlPlane:
    """Return a cluster with its namespaces and no workload; needs a running event loop."""
    store = Store(first_version=first_version)
    registry = Registry(store)
    event_expiry = EventExpiry(store)
    deletion = Deletion(registry)
    logs = PodLogs(state_dir / "pods", store)
    reaper = GroupReaper()
    inherited = inheritable(os.environ)
    warm = WarmInterpreter(state_dir / "warm-interpreter.log", inherited, reaper)
    ports = PortPool()
    node = Node(
        NodeParts(
            registry=registry,
            events=EventRecorder(registry, source="kubelet"),
            environment=NodeEnvironment(inherited, state_dir / "kubeconfig", store),
            logs=logs,
            ports=ports,
            starter=ContainerStarter(reaper, warm),
        )
    )
    deployments = DeploymentController(
        registry, deletion, EventRecorder(registry, source="deployment-controller")
    )
    stateful_sets = StatefulSetController(
        registry, deletion, EventRecorder(registry, source="statefulset-controller")
    )
    jobs = JobController(registry, deletion, EventRecorder(registry, source="job-controller"))
    for name in ("default", "kube-system"):
        registry.create(NAMESPACE, {"metadata": {"name": name}}, "")
    api = ApiServer(
        registry=registry,
        deletion=deletion,
        watches=Watches(store),
        writes=Writes(registry),
        logs=logs,
        metrics=PodMetrics(node.workers),
        signals=PodSignals(node.workers),
        token=token,
    )
    services = ServiceForwarder(registry, ports)
    return ControlPlane(
        store, api, node, deployments, stateful_sets, jobs, services, event_expiry, reaper, warm
    )
