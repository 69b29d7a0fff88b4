"""The pod's metrics and probes over HTTP."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from lagbench.errors import NotReady, WrongInput
from lagbench.programs.consumer.metrics import Exposition
from lagbench.programs.consumer.reports import PodCounts
from lagbench.programs.http_endpoint import HttpEndpoint, address_and_port, probe_routes


@pytest.fixture
def pod_counts() -> PodCounts:
    """Provide figures of a pod that has seen two rebalances."""
    found = PodCounts()
    found.consume_rate, found.inflight, found.assigned_partitions = 480.5, 3, 6
    found.rebalances_total, found.rebalance_seconds = 2, [0.02, 0.3]
    return found


@pytest.fixture
def endpoint(pod_counts: PodCounts) -> Iterator[HttpEndpoint]:
    """Provide the endpoint on a free port."""
    routes = {"/metrics": Exposition(pod_counts), **probe_routes(lambda: pod_counts.is_ready)}
    running = HttpEndpoint("127.0.0.1", 0, routes)
    yield running
    running.close()


def get(endpoint: HttpEndpoint, path: str) -> tuple[int, str]:
    """Return status and body."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{endpoint.port}{path}", timeout=60
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_a_taken_port_is_said_so(endpoint: HttpEndpoint) -> None:
    """The world is not ready; the message names the variable to set."""
    with pytest.raises(NotReady, match="PORT_METRICS"):
        HttpEndpoint("127.0.0.1", endpoint.port, {})


@pytest.mark.parametrize("port", ["no", "-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    """The message names variable and value."""
    with pytest.raises(WrongInput, match=f"PORT_METRICS = '{port}'"):
        address_and_port({"PORT_METRICS": port})


def test_it_listens_on_loopback_by_default() -> None:
    """Only BIND_ADDRESS opens it to others."""
    assert address_and_port({}) == ("127.0.0.1", 8080)
    assert address_and_port({"BIND_ADDRESS": "10.1.2.3", "PORT_METRICS": "9"}) == ("10.1.2.3", 9)


def test_a_client_that_sends_nothing_is_let_go(
    endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep a thread."""
    monkeypatch.setattr("lagbench.programs.http_endpoint._Handler.timeout", 0.05)
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=60) as silent:
        assert silent.recv(1) == b""
