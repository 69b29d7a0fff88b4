"""The pod's metrics and probes over HTTP."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

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


def test_the_lab_finds_its_five_metrics_by_name(endpoint: HttpEndpoint) -> None:
    """The names are the lab's, nothing is added to them."""
    _, text = get(endpoint, "/metrics")

    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
    assert samples == {
        "consume_rate": 480.5,
        "inflight": 3,
        "assigned_partitions": 6,
        "rebalances_total": 2,
        "rebalance_duration_seconds_count": 2,
        "rebalance_duration_seconds_sum": pytest.approx(0.32),
    }
    assert 'rebalance_duration_seconds_bucket{le="0.025"} 1.0' in text
    assert 'rebalance_duration_seconds_bucket{le="+Inf"} 2.0' in text


def test_ready_follows_the_pod(endpoint: HttpEndpoint, pod_counts: PodCounts) -> None:
    """The probe fails until the broker has answered."""
    before, _ = get(endpoint, "/ready")
    pod_counts.is_ready = True

    assert (before, get(endpoint, "/ready")[0]) == (503, 200)
    assert get(endpoint, "/healthz")[0] == 200
    assert get(endpoint, "/elsewhere")[0] == 404


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
