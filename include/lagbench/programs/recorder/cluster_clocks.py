"""Bound the clocks of the API server and of each node against this process's.

Every answer of an HTTP server carries the second of its clock in ``Date``. The API server is asked
for its version, a node through the health endpoint of one of its pods; a pod has its node's clock.
Each is asked once a second until its bound is tight, then once in five (clocks drift). A server
that does not answer leaves its clock unbounded; nothing is made up for it.
"""

from __future__ import annotations

import http.client
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import get
from lagbench.core.clocks import API_SERVER
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.measures.evidence.clock_readings import RunningBound, answer_bound, probe_at
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import ClockOffset
from lagbench.core.workload_state import is_ready
from lagbench.errors import NotReady
from lagbench.programs.recorder.grid_sampler import SourceThread

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

log = logging.getLogger(__name__)
_EAGER_SECONDS = 1.0
_CALM_SECONDS = 5.0
_TIGHT_NS = 20_000_000  # an answer takes 2 to 10 ms in a cluster
_LOOK_SECONDS = 5.0
_ANSWER_SECONDS = 2.0
_FURTHEST_NS = 20 * NS_PER_SECOND  # nothing is ever due later than this
Ask = Callable[[], tuple[int, str, int]]
"""Asks once and returns the instants before and after, and the ``Date`` between."""


@dataclass(frozen=True, slots=True)
class NodeClock:
    """A node, how to ask its clock, and the pods that have it."""

    node: str
    ask: Ask
    pods: tuple[str, ...]


@dataclass(slots=True)
class _Asked:
    ask: Ask
    pods: set[str] = field(default_factory=set)
    running: RunningBound = field(default_factory=RunningBound)
    due_at: int = 0
    lead_ns: int = 0  # half of what the last answer took


class ClockProbe(SourceThread):
    """Sends a ClockOffset for every answer of a clock."""

    def __init__(
        self,
        ask_api_server: Ask,
        find_nodes: Callable[[], list[NodeClock]],
        *,
        send: Callable[[Record], None],
        source: str,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """Ask the API server, and the nodes that ``find_nodes`` names every five seconds."""
        super().__init__("probe-clocks", send, source)
        self._find_nodes, self._now = find_nodes, now
        self._asked = {API_SERVER: _Asked(ask_api_server)}
        self._look_at = 0
        self.has_read = True  # no reading waits for the clocks

    def run(self) -> None:
        """Ask each clock when it is due, until stopped."""
        while True:
            name, asked = min(self._asked.items(), key=lambda item: item[1].due_at)
            wait_ns = min(asked.due_at, self._look_at) - self._now()
            if wait_ns > _FURTHEST_NS:  # this clock was set back: what was due then is due now
                self._look_at = 0
                for known in self._asked.values():
                    known.due_at = 0
                continue
            if self._stopping.wait(max(0, wait_ns) / NS_PER_SECOND):
                return
            if self._now() >= self._look_at:
                self.look()
            elif self._now() >= asked.due_at:
                self.probe(name)

    def look(self) -> None:
        """Find the nodes and their pods; a node keeps its bound while its pods change."""
        self._look_at = self._now() + round(_LOOK_SECONDS * NS_PER_SECOND)
        try:
            found = self._find_nodes()
        except Exception as error:
            log.warning("pods' clocks were not found: %s", error)
            return
        for node in found:
            asked = self._asked.setdefault(node.node, _Asked(node.ask))
            asked.ask = node.ask
            asked.pods |= set(node.pods)
        there = {node.node for node in found}
        for gone in self._asked.keys() - there - {API_SERVER}:
            del self._asked[gone]

    def probe(self, name: str) -> None:
        """Ask one clock and send what is known of it now."""
        asked = self._asked[name]
        pause_seconds = _CALM_SECONDS
        try:
            sent_at, date, received_at = asked.ask()
            second_at = round(parsedate_to_datetime(date).timestamp()) * NS_PER_SECOND
        except Exception as error:
            log.info("the clock of %s did not answer: %s", name, error)
        else:
            found = answer_bound(second_at=second_at, sent_at=sent_at, received_at=received_at)
            bound = asked.running.take(found, at=received_at)
            asked.lead_ns = (received_at - sent_at) // 2
            if bound.width_ns > _TIGHT_NS:
                pause_seconds = _EAGER_SECONDS
            self._report(
                ClockOffset,
                received_at,
                clock=name,
                pods=sorted(asked.pods),
                low_ns=bound.low_ns,
                high_ns=bound.high_ns,
                answers=asked.running.answers,
                since_at=asked.running.since_at,
            )
        not_before_at = self._now() + round(pause_seconds * NS_PER_SECOND) // 2
        asked.due_at = probe_at(asked.running.bound, not_before_at, lead_ns=asked.lead_ns)


def ask_endpoint(address: str, port: int, path: str = "/healthz") -> tuple[int, str, int]:
    """Ask an HTTP endpoint for its ``Date``; the connection is made before the first instant."""
    with closing(http.client.HTTPConnection(address, port, timeout=_ANSWER_SECONDS)) as connection:
        connection.connect()
        sent_at = time.time_ns()
        connection.request("GET", path)
        headers = connection.getresponse().headers
        return sent_at, date_of(headers), time.time_ns()


def date_of(headers: Mapping[str, str] | Message) -> str:
    """Return the ``Date`` of an answer; ``ValueError`` without one."""
    date = headers.get("Date")
    if not date:
        raise ValueError("the answer has no Date")
    return date


_VERSION_SECONDS = 2.0
_OWN_PODS = "app.kubernetes.io/part-of=lagbench"
_ENDPOINT = "metrics"


class ClockSources:
    """The API server and the nodes as things that can be asked for their second."""

    def __init__(self, open_client: Callable[[], ApiClient], open_kube: Callable[[], Kube]) -> None:
        """Ask nothing yet."""
        self._client, self._kube = cache(open_client), cache(open_kube)

    def is_on_this_machine(self) -> bool:
        """Return whether the API server is reached by loopback: then its clock is this one."""
        try:
            host = urlsplit(self._client().configuration.host).hostname or ""
            return host == "localhost" or ip_address(host).is_loopback
        except (NotReady, ValueError):
            return False

    def ask_api_server(self) -> tuple[int, str, int]:
        """Request the version, which every account may read."""
        client, sent_at = self._client(), time.time_ns()
        answer = get(client, "/version", timeout_seconds=_VERSION_SECONDS)
        received_at = time.time_ns()
        answer.read()
        answer.release_conn()
        return sent_at, date_of(answer.headers), received_at

    def find_nodes(self) -> list[NodeClock]:
        """Return the nodes of the bench's running pods, each asked through one of them."""
        return node_clocks(self._kube().list("Pod", label_selector=_OWN_PODS))


def node_clocks(pods: list[dict[str, Any]]) -> list[NodeClock]:
    """Return the nodes of running pods; a node is asked through the first that is Ready."""
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in pods:
        node, status = pod["spec"].get("nodeName"), pod.get("status") or {}
        if node and status.get("phase") == "Running":
            by_node.setdefault(node, []).append(pod)
    found = []
    for node, there in sorted(by_node.items()):
        places = [place for pod in there if (place := _endpoint(pod)) is not None]
        if places:
            names = tuple(sorted(pod["metadata"]["name"] for pod in there))
            found.append(NodeClock(node, partial(ask_endpoint, *places[0]), names))
    return found


def _endpoint(pod: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return where a Ready pod of the bench answers; None when it has no such port."""
    address = pod["status"].get("podIP")
    if not is_ready(pod) or not address or pod["metadata"].get("deletionTimestamp"):
        return None
    for container in pod["spec"].get("containers") or []:
        for port in container.get("ports") or []:
            if port.get("name") == _ENDPOINT:
                return address, int(port["containerPort"])
    return None
