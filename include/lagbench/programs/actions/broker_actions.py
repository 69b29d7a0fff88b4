"""Actions between the consumers and the broker, and on the embedded broker itself."""

from __future__ import annotations

import threading
from typing import Any

from lagbench.core.scenario import (
    BROKER_PROXY,
    RUN_ID_LABEL,
    BrokerRestart,
    BrokerUnreachable,
    SlowDownstream,
)
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchState
from lagbench.errors import NotReady
from lagbench.localkube.objects import PORT_PREFIX
from lagbench.programs.actions.performer import Performer
from lagbench.programs.tcp_proxy.orders import ProxyOrder, ProxyState
from lagbench.programs.tcp_proxy.proxy_client import order_proxy

BROKER = "broker"
_NET_SECONDS = 5.0
"""If the player cannot end the mode, the proxy does, this time later."""
_BACK_SECONDS = 120.0
_LOOK_SECONDS = 0.2
_NS = 1_000_000_000


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
    _begun: ProxyState

    def choose(self) -> list[str]:
        """Return the consumers that are Ready.

        :raises NotReady: the run has no broker proxy.
        """
        self._port = self._control_port()
        self._begun = order_proxy(self._port, ProxyOrder())
        self._targets = self.stage.ready_pods()
        return self._targets

    def act(self) -> None:
        """Disturb every connection; the proxy ends it also without the player."""
        seconds = self.action.for_seconds + _NET_SECONDS
        mode, latency_ms = self.action.mode, self.action.latency_ms
        order = ProxyOrder(mode=mode, latency_ms=latency_ms, seconds=seconds)
        order_proxy(self._port, order)

    def undo(self) -> None:
        """Let everything pass again."""
        ended = order_proxy(self._port, ProxyOrder(mode="pass"))
        begun = self._begun
        self.came = sorted({*self.stage.pods()} - {*self._targets})
        reset = ended.reset_connections - begun.reset_connections
        passed = ended.to_broker_bytes - begun.to_broker_bytes
        if self.action.mode == "reset":
            self.detail = f"{reset} connections were reset while it lasted"
        elif self.action.mode == "blackhole":
            self.detail = f"{ended.connections} connections held, {passed} bytes passed"
        else:
            self.detail = f"{ended.connections} connections, {self.action.latency_ms:g} ms each way"

    def _control_port(self) -> int:
        selector = f"app={BROKER_PROXY},{RUN_ID_LABEL}={self.stage.options.run_id}"
        for pod in self.stage.kube.list("Pod", label_selector=selector):
            port = _annotations(pod).get(f"{PORT_PREFIX}control")
            if port is not None:
                return int(port)
        raise NotReady(f"the run has no pod of Deployment {BROKER_PROXY}: there is no target")


class RestartedBroker(Performer[BrokerRestart]):
    """Asks the embedded bench's supervisor, which starts the broker again by itself."""

    def choose(self) -> list[str]:
        """Name the broker and the consumers, which all lose their connections.

        :raises NotReady: this machine runs no embedded broker.
        """
        self._targets = self.stage.ready_pods()
        if self._bench().broker_state != "running":
            raise NotReady("the embedded broker does not run: there is no target")
        return [BROKER, *self._targets]

    def act(self) -> None:
        """Return when the broker has ended."""
        state = bench.restart_broker(bench.state_dir(), outage_seconds=self.action.for_seconds)
        self._stopped_at = state.broker_changed_at

    def hold(self, stopping: threading.Event) -> None:
        """Wait until the broker answers clients again.

        :raises NotReady: it is not back in time.
        """
        ends_by = self.action.for_seconds + _BACK_SECONDS
        for _ in range(int(ends_by / _LOOK_SECONDS)):
            if self._bench().broker_state == "running":
                break
            if stopping.wait(_LOOK_SECONDS):
                return
        state = bench.await_broker(bench.state_dir(), timeout_seconds=_LOOK_SECONDS)
        away_seconds = (state.broker_changed_at - self._stopped_at) / _NS
        self.detail = f"the broker was down for {away_seconds:.1f} s"

    def undo(self) -> None:
        """Start the broker unless it runs."""
        self.came = sorted({*self.stage.pods()} - {*self._targets})
        if self._bench().broker_state != "running":
            bench.start_broker(bench.state_dir())

    def _bench(self) -> BenchState:
        state = bench.running(bench.state_dir())
        if state is None or state.kafka != "embedded":
            raise NotReady("there is no embedded bench with a broker of its own here")
        return state


def _annotations(pod: dict[str, Any]) -> dict[str, str]:
    return pod["metadata"].get("annotations") or {}
