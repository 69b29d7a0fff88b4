"""Perform each kind of action: on pods, policies, the topic, connections and the broker."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import bring_back, put_policy, set_aside
from lagbench.core.cluster.manifests import set_settings
from lagbench.core.cluster.own_deployment import set_own_variables
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.actions import (
    ROLLOUT_SECONDS,
    ActionBase,
    ActionKind,
    AutoscalerDown,
    BrokerRestart,
    BrokerUnreachable,
    GrowPartitions,
    KillPod,
    LagScalerDown,
    PausePod,
    RollingRestart,
    SlowDownstream,
    SwapPolicy,
    restart_text,
)
from lagbench.core.scenario.own_consumer import new_variables
from lagbench.core.scenario.run_names import (
    AUTOSCALER_DEPLOYMENT,
    AUTOSCALER_NAMESPACE,
    BROKER_PROXY,
    LAG_SCALER,
    PORT_ANNOTATION,
    RUN_ID_LABEL,
)
from lagbench.core.workload_state import is_rolled_out
from lagbench.errors import NotReady
from lagbench.programs.actions.player import Performer, Stage
from lagbench.programs.tcp_proxy.orders import ProxyOrder, ProxyState, order_proxy

_KILLED_SECONDS = 30.0
_NET_SECONDS = 5.0
"""The API itself ends a pause this long after its time, if the player cannot."""


class KillPods(Performer[KillPod]):
    """Sends SIGKILL; the action ends when each container has ended and was started again."""

    _restarts: dict[str, int]

    def choose(self) -> list[str]:
        """Draw the pods."""
        pods = self.draw_pods(self.action.pods)
        self._restarts = {pod: self._restart_count(pod) or 0 for pod in pods}
        return pods

    def act(self) -> None:
        """Kill them, and wait until the API shows it."""
        kube = self.stage.kube
        for pod in self._restarts:
            kube.signal_pod(pod, "SIGKILL")
        kube.wait_until(
            lambda _: all(
                (now := self._restart_count(pod)) is None or now > before
                for pod, before in self._restarts.items()
            ),
            timeout_seconds=_KILLED_SECONDS,
            what=f"the containers of {', '.join(self._restarts)} to end after SIGKILL",
        )

    def _restart_count(self, pod: str) -> int | None:
        """Return how often the pod's containers were started again; None: there is no such pod."""
        found = self.stage.kube.get("Pod", pod)
        statuses = ((found or {}).get("status") or {}).get("containerStatuses") or []
        counts = (int(status.get("restartCount") or 0) for status in statuses)
        return None if found is None else sum(counts)


class PausePods(Performer[PausePod]):
    """Sends SIGSTOP, and SIGCONT when its time has passed or the player ends."""

    _paused: list[str]

    def choose(self) -> list[str]:
        """Draw the pods."""
        self._paused = []
        self._pods = self.draw_pods(self.action.pods)
        return self._pods

    def act(self) -> None:
        """Stop the processes of each pod; the API lets them continue even without the player."""
        for pod in self._pods:
            self._paused.append(pod)
            seconds = self.action.for_seconds + _NET_SECONDS
            self.stage.kube.signal_pod(pod, "SIGSTOP", seconds=seconds)

    def undo(self) -> None:
        """Let every pod continue that still exists."""
        for pod in self._paused:
            try:
                self.stage.kube.signal_pod(pod, "SIGCONT")
            except NotReady:
                if self.stage.kube.get("Pod", pod) is not None:
                    raise


class SwapPolicies(Performer[SwapPolicy]):
    """Puts the new policy into force; ends when the autoscaler has taken it up. It stays."""

    def choose(self) -> list[str]:
        """Name the new policy."""
        if self.number not in self.stage.options.policies:
            raise NotReady(f"the manifest of the policy {self.action.policy} is missing")
        return [self.action.policy]

    def act(self) -> None:
        """Apply it, and keep the difference from the one before."""
        manifest = self.stage.options.policies[self.number]
        policy = Policy.read(manifest, where=self.action.policy)
        self.detail = put_policy(self.stage.kube, manifest, policy.limits).difference


_ANSWER_SECONDS = 30.0


class GrownTopic(Performer[GrowPartitions]):
    """Adds partitions; ends when each has a leader. Kafka cannot remove them."""

    def choose(self) -> list[str]:
        """Name the topic."""
        topic = self.stage.options.topic
        with self._admin() as admin:
            before = admin.partition_counts([topic]).get(topic)
        if before is None or before >= self.action.partitions:
            raise NotReady(f"topic {topic} has {before or 'no'} partitions: it cannot grow")
        return [topic]

    def act(self) -> None:
        """Grow it; return when the new partitions can be written and read."""
        topic, wanted = self.stage.options.topic, self.action.partitions
        with self._admin() as admin:
            before = admin.grow_topic(topic, wanted)
        if before >= wanted:
            raise NotReady(f"topic {topic} has {before} partitions: it did not grow")
        self.detail = f"from {before} to {wanted} partitions"

    def _admin(self) -> KafkaAdmin:
        return KafkaAdmin(self.stage.options.bootstrap_servers, timeout_seconds=_ANSWER_SECONDS)


_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation that ``kubectl rollout restart`` writes."""


class DeploymentIsDown(Performer[AutoscalerDown | LagScalerDown]):
    """Takes the bench's autoscaler, or the run's lag scaler, away and brings it back."""

    def choose(self) -> list[str]:
        """Name the Deployment; without it the run has no target."""
        is_autoscaler, kube = self.action.kind == "autoscaler_down", self.stage.kube
        self._kube = kube.elsewhere(AUTOSCALER_NAMESPACE) if is_autoscaler else kube
        self._name = AUTOSCALER_DEPLOYMENT if is_autoscaler else LAG_SCALER
        if not is_autoscaler and kube.get("Deployment", LAG_SCALER) is None:
            raise NotReady(f"there is no Deployment {LAG_SCALER}: no trigger of the policy asks it")
        return [self._name]

    def act(self) -> None:
        """Scale it to zero; return when its pod has ended."""
        set_aside(self._kube, self._name)

    def undo(self) -> None:
        """Scale it back; return when its pod is Ready."""
        bring_back(self._kube, self._name)


class RollingRestarts(Performer[RollingRestart]):
    """Restarts the consumers' workload; ends when the rollout is complete."""

    def choose(self) -> list[str]:
        """Name the pods that are to go."""
        self._before = self._pods()
        return sorted(self._before.values())

    def act(self) -> None:
        """Write the annotation and what the new pods have otherwise; wait for the rollout."""
        options, seen = self.stage.options, dict[str, Any]()
        kind, name = options.workload, options.deployment
        stored = self.stage.kube.get(kind, name)
        if stored is None:
            raise NotReady(f"there is no {kind} {name}")
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        changes = restart_changes(stored, self.action, stamp=stamp)
        self.stage.kube.merge(kind, name, changes)
        self.detail = restart_text(self.action)

        def is_replaced(kube: Kube) -> bool:
            found = kube.get(kind, name) or {}
            seen.update(found.get("status") or {})
            return is_rolled_out(found) and not {*self._before} & {*self._pods()}

        self.stage.kube.wait_until(
            is_replaced,
            timeout_seconds=ROLLOUT_SECONDS,
            what=f"the rollout of {kind}/{name}",
            last_seen=lambda: str({k: v for k, v in seen.items() if k != "conditions"}),
        )
        self.came = sorted(self._pods().values())

    def _pods(self) -> dict[str, str]:
        """Return the names of the pods by uid: a StatefulSet's new pod has an earlier name."""
        pods = self.stage.kube.list("Pod", label_selector=self.stage.options.pod_selector)
        return {str(pod["metadata"]["uid"]): str(pod["metadata"]["name"]) for pod in pods}


def restart_changes(
    workload: Mapping[str, Any], action: RollingRestart, *, stamp: str
) -> dict[str, Any]:
    """Return what to merge into the workload (RFC 7386: a list replaces the one before)."""
    template: dict[str, Any] = {"metadata": {"annotations": {_RESTARTED_AT: stamp}}}
    spec: dict[str, Any] = {"template": template}
    containers = copy.deepcopy(workload["spec"]["template"]["spec"]["containers"])
    if action.balancer is not None:
        set_settings(containers[0], {"balancer": action.balancer})
        template["spec"] = {"containers": containers}
    elif action.env:
        set_own_variables(containers, new_variables(action))
        template["spec"] = {"containers": containers}
    if action.at_once:
        spec["strategy"] = {"type": "Recreate", "rollingUpdate": None}
    return {"spec": spec}


_OUTAGE = ("-m", "lagbench.embedded.broker_outage")
_LOOK_SECONDS = 0.2


class SlowDownstreams(Performer[SlowDownstream]):
    """Stamps the time; the consumers know it from their flags, by the stream's clock."""

    def choose(self) -> list[str]:
        """Return the consumers that are Ready; later ones are as slow."""
        return self.stage.ready_pods()

    def act(self) -> None:
        """Do nothing."""


class DisturbedConnections(Performer[BrokerUnreachable]):
    """Orders the broker proxy, through which all connections of the consumers go."""

    _port: int
    _before: ProxyState
    _begun: ProxyState | None = None

    def choose(self) -> list[str]:
        """Return the consumers that are Ready."""
        self._port = self._control_port()
        self._before = order_proxy(self._port, ProxyOrder())
        self._targets = self.stage.ready_pods()
        return self._targets

    def act(self) -> None:
        """Disturb every connection; the proxy ends it also without the player."""
        seconds = self.action.for_seconds + _NET_SECONDS
        mode, latency_ms = self.action.mode, self.action.latency_ms
        order = ProxyOrder(mode=mode, latency_ms=latency_ms, seconds=seconds)
        self._begun = order_proxy(self._port, order)

    def undo(self) -> None:
        """Let everything pass again."""
        self.came = sorted({*self.stage.pods()} - {*self._targets})
        if self._begun is not None:
            self.detail = self._seen(order_proxy(self._port, ProxyOrder()), self._begun)
        order_proxy(self._port, ProxyOrder(mode="pass"))

    def _seen(self, now: ProxyState, begun: ProxyState) -> str:
        """Return what the proxy did; ``now`` is its state just before the end."""
        if self.action.mode == "reset":
            return f"{now.reset_connections - self._before.reset_connections} connections reset"
        if self.action.mode == "latency":
            return f"{now.connections} connections, {self.action.latency_ms:g} ms each way"
        passed = now.to_broker_bytes - begun.to_broker_bytes
        passed += now.to_clients_bytes - begun.to_clients_bytes
        return f"{now.connections} connections held, {passed} bytes passed"

    def _control_port(self) -> int:
        selector = f"app={BROKER_PROXY},{RUN_ID_LABEL}={self.stage.options.run_id}"
        for pod in self.stage.kube.list("Pod", label_selector=selector):
            notes = pod["metadata"].get("annotations") or {}
            port = notes.get(f"{PORT_ANNOTATION}control")
            if port is not None:
                return int(port)
        raise NotReady(f"the run has no pod of Deployment {BROKER_PROXY}: there is no target")


class RestartedBroker(Performer[BrokerRestart]):
    """Stops the embedded broker; the bench's supervisor starts it again, also without the player.

    The bench is another program, which only the embedded bench has.
    """

    _outage: subprocess.Popen[str] | None = None

    def choose(self) -> list[str]:
        """Return the consumers that are Ready: all of them lose their connections."""
        self._targets = self.stage.ready_pods()
        return self._targets

    def act(self) -> None:
        """Return when the broker has ended."""
        self._outage = subprocess.Popen(
            [sys.executable, *_OUTAGE, f"--seconds={self.action.for_seconds!r}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stopped_at = self._line("stopped_at")

    def hold(self, stopping: threading.Event) -> None:
        """Wait until the broker answers clients again."""
        while self._outage is not None and self._outage.poll() is None:
            if stopping.wait(_LOOK_SECONDS):
                return
        down_seconds = (self._line("back_at") - self._stopped_at) / NS_PER_SECOND
        self.detail = f"the broker was down for {down_seconds:.1f} s"

    def undo(self) -> None:
        """End the wait; the supervisor starts the broker at its time."""
        self.came = sorted({*self.stage.pods()} - {*self._targets})
        if self._outage is not None:
            self._outage.terminate()
            self._outage.communicate()

    def _line(self, name: str) -> int:
        """Return the instant in the next line of the program."""
        outage = self._outage
        if outage is None or outage.stdout is None or outage.stderr is None:
            raise NotReady("the broker was not asked to stop")
        line = outage.stdout.readline()
        if not line:
            raise NotReady(outage.stderr.read().strip() or "the broker was not stopped")
        return int(json.loads(line)[name])


PERFORMERS: Mapping[ActionKind, type[Performer[Any]]] = {
    "kill_pod": KillPods,
    "pause_pod": PausePods,
    "swap_policy": SwapPolicies,
    "autoscaler_down": DeploymentIsDown,
    "lag_scaler_down": DeploymentIsDown,
    "rolling_restart": RollingRestarts,
    "slow_downstream": SlowDownstreams,
    "broker_unreachable": DisturbedConnections,
    "broker_restart": RestartedBroker,
    "grow_partitions": GrownTopic,
}


def performer(number: int, action: ActionBase, stage: Stage) -> Performer[Any]:
    """Return the performer of action ``number``."""
    return PERFORMERS[action.kind](number, action, stage)
