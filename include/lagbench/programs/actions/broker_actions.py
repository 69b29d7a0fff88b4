"""Actions between the consumers and the broker, and on the embedded broker itself."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.scenario.actions import (
    ActionBase,
    ActionKind,
    BrokerRestart,
    BrokerUnreachable,
    SlowDownstream,
)
from lagbench.core.scenario.run_names import BROKER_PROXY, PORT_ANNOTATION, RUN_ID_LABEL
from lagbench.errors import NotReady
from lagbench.programs.actions.player import Performer, Stage
from lagbench.programs.actions.workload_actions import (
    DeploymentIsDown,
    GrownTopic,
    KillPods,
    PausePods,
    RollingRestarts,
    SwapPolicies,
)
from lagbench.programs.tcp_proxy.orders import ProxyOrder, ProxyState, order_proxy

_OUTAGE = ("-m", "lagbench.embedded.broker_outage")

_NET_SECONDS = 5.0
"""If the player cannot end the mode, the proxy does, this time later."""

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
            port = _annotations(pod).get(f"{PORT_ANNOTATION}control")
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


def _annotations(pod: dict[str, Any]) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}


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
