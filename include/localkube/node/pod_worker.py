"""Run one pod on the node: its ports, its containers, its status."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass

from localkube.controllers.events import EventRecorder
from localkube.kinds import POD
from localkube.kube_objects import (
    PORT,
    READY_AT_NS,
    STARTED_AT_NS,
    JsonObject,
    KubeObject,
    rfc3339,
    set_condition,
)
from localkube.node.container_process import ContainerStarter
from localkube.node.container_runner import ContainerRunner
from localkube.node.pod_environment import POD_ADDRESS, LaunchPlan, NodeEnvironment, plan_launch
from localkube.node.pod_logs import PodLogs
from localkube.ports import PortPool
from localkube.storage.object_registry import Registry


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts that all pods on the node share."""

    registry: Registry
    events: EventRecorder
    environment: NodeEnvironment
    logs: PodLogs
    ports: PortPool
    starter: ContainerStarter


class PodWorker:
    """Runs one pod and keeps its status up to date."""

    def __init__(self, pod: KubeObject, node: NodeParts) -> None:
        """Take the pod over; ``run`` starts it."""
        self.pod = pod
        self.node = node
        self._ports: dict[str, int] = {}  # loopback ports by name
        self._port_numbers: dict[int, int] = {}  # and by the declared number
        for container in pod.spec["containers"]:
            for port in container.get("ports") or ():
                number, taken = int(port["containerPort"]), node.ports.take()
                self._ports[str(port.get("name") or number)] = taken
                self._port_numbers[number] = taken
        inits, mains = pod.spec.get("initContainers") or (), pod.spec["containers"]
        self._inits = [ContainerRunner(container, self, is_init=True) for container in inits]
        self._mains = [ContainerRunner(container, self, is_init=False) for container in mains]
        self._is_stopping = False

    def running_pids(self) -> dict[str, int]:
        """Return the session leader's pid of each running container."""
        return {
            runner.name: runner.process.pid
            for runner in self._mains
            if runner.process is not None and not runner.process.exited.done()
        }

    def send_signal(self, signum: signal.Signals) -> None:
        """Send ``signum`` to the processes of all running containers."""
        for runner in self._mains:
            if runner.process is not None:
                runner.process.send_signal(signum)
        self.record("Normal", "Signalled", f"Sent {signum.name} to the pod's processes")

    async def run(self) -> None:
        """Run the pod until all its containers have ended."""
        try:
            for runner in self._inits:
                await runner.run()
                if runner.exit_code != 0:
                    break
            else:
                await asyncio.gather(*(runner.run() for runner in self._mains))
        finally:
            for runner in [*self._inits, *self._mains]:
                await runner.stop(0)
            for port in self._ports.values():
                self.node.ports.give_back(port)
        self.publish()

    async def stop(self, grace_seconds: float) -> None:
        """Stop all containers; a second call with a shorter grace period stops them sooner."""
        if not self._is_stopping:
            self._is_stopping = True
            for name in self.running_pids():
                self.record("Normal", "Killing", f"Stopping container {name}")
        await asyncio.gather(*(r.stop(grace_seconds) for r in [*self._inits, *self._mains]))

    def plan(self, container: JsonObject) -> LaunchPlan:
        """Return how to start a container now."""
        folder = self.node.logs.pod_folder(self.pod)
        return plan_launch(self.pod, container, self._ports, self.node.environment, folder)

    def resolve_port(self, probe: JsonObject) -> int:
        """Return the loopback port behind a probe's port: a name, or the declared number."""
        port = (probe.get("httpGet") or probe["tcpSocket"]).get("port")
        if isinstance(port, int):
            return self._port_numbers.get(port, port)
        name = str(port)
        return self._ports[name] if name in self._ports else int(name) if name.isdigit() else 0

    def record(self, severity: str, reason: str, message: str) -> None:
        """Record an event of the pod."""
        self.node.events.record(self.pod, severity, reason, message)

    def publish(self) -> None:
        """Write the pod's status as it is now."""
        now_ns = self.node.registry.now_ns()

        def edit(pod: KubeObject) -> None:
            if pod.uid != self.pod.uid:
                return
            pod.spec["nodeName"] = "localkube"
            pod["status"] = self._status(pod.status, rfc3339(now_ns / 1e9))
            started = [r.first_started_at_ns for r in self._mains if r.first_started_at_ns]
            if started:
                pod.annotate(STARTED_AT_NS, min(started))
            if self._all_ready() and READY_AT_NS not in pod.annotations:
                pod.annotate(READY_AT_NS, now_ns)
            for name, number in self._ports.items():
                pod.annotate(PORT + name, number)

        self.node.registry.change(POD, *self.pod.key, edit)

    def _all_ready(self) -> bool:
        return all(runner.is_ready for runner in self._mains)

    def _phase(self) -> str:
        if any(runner.exit_code not in (0, None) for runner in self._inits):
            return "Failed"
        if all(runner.has_ended for runner in self._mains):
            failed = any(runner.exit_code != 0 for runner in self._mains)
            return "Failed" if failed else "Succeeded"
        has_started = any(runner.first_started_at_ns for runner in self._mains)
        return "Running" if has_started else "Pending"

    def _status(self, before: JsonObject, now: str) -> JsonObject:
        phase = self._phase()
        status: JsonObject = {
            "phase": phase,
            "conditions": list(before.get("conditions") or ()),
            "hostIP": POD_ADDRESS,
            "podIP": POD_ADDRESS,
            "podIPs": [{"ip": POD_ADDRESS}],
            "startTime": before.get("startTime", now),
            "qosClass": "BestEffort",
            "containerStatuses": [runner.status() for runner in self._mains],
        }
        if self._inits:
            status["initContainerStatuses"] = [runner.status() for runner in self._inits]
        is_ready, has_succeeded = self._all_ready(), phase == "Succeeded"
        why = "PodCompleted" if has_succeeded else "ContainersNotReady"
        for kind, holds, reason in (
            ("PodScheduled", True, ""),
            ("Initialized", all(runner.exit_code == 0 for runner in self._inits), ""),
            ("ContainersReady", is_ready, "" if is_ready else why),
            ("Ready", is_ready, "" if is_ready else why),
        ):
            set_condition(status, kind, holds=holds, at=now, reason=reason)
        return status
