"""Map HTTP ``Date`` headers to clocks: the API server's to its own, a pod's to its node's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lagbench.adapters.kube.client.kube_connection import get
from lagbench.adapters.kube.kube import Kube
from lagbench.core.kubernetes.readiness import is_ready
from lagbench.errors import NotReady
from lagbench.programs.recorder.clock_probe import NodeClock, ask_endpoint, date_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

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
