"""Readers by trigger type, addresses of Services, and how long a stream waits to be reopened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.autoscaler_world import KEY, scaled_object
from tests.fakes.cluster import FakeCluster

from lagbench.core.keda.loop.scalers import ScalerFailed
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.embedded.child_server import free_port
from lagbench.errors import NotReady
from lagbench.programs.autoscaler.trigger_sources import (
    LiveSources,
    StreamReader,
    dialled_address,
    dialled_url,
)


@pytest.mark.parametrize(
    ("address", "dialled"),
    [
        ("scaler.n:6000", "127.0.0.1:41000"),
        ("scaler.n.svc:6000", "127.0.0.1:41000"),
        ("scaler.n.svc.cluster.local:6000", "127.0.0.1:41000"),
        ("scaler.n:8080", "127.0.0.1:41001"),
        ("scaler.n:9999", "scaler.n:9999"),
        ("scaler.other:6000", "scaler.other:6000"),
        ("127.0.0.1:6000", "127.0.0.1:6000"),
        ("localhost:6000", "localhost:6000"),
    ],
)
def test_the_name_of_a_service_becomes_the_port_that_localkube_gave_it(
    address: str, dialled: str
) -> None:
    """Named and unnamed ports are found; whatever is no such Service is dialled as it is."""
    assert dialled_address(address, with_service()) == dialled


@pytest.mark.parametrize(
    ("url", "dialled"),
    [
        ("http://scaler.n:8080", "http://127.0.0.1:41001"),
        ("http://scaler.n.svc:8080/prefix?x=1", "http://127.0.0.1:41001/prefix?x=1"),
        ("http://scaler.n", "http://127.0.0.1:41002"),
        ("https://scaler.n:8080", "https://scaler.n:8080"),
        ("http://other.n:8080", "http://other.n:8080"),
        ("http://u:p@scaler.n:8080", "http://u:p@scaler.n:8080"),
        ("scaler.n:8080", "scaler.n:8080"),
        ("http://[::1", "http://[::1"),
    ],
)
def test_a_url_is_asked_at_the_port_of_its_service(url: str, dialled: str) -> None:
    """Path and query stay; without a port it is 80, and what is no URL fails when it is asked."""
    assert dialled_url(url, with_service()) == dialled


def with_service() -> FakeCluster:
    """Return a cluster with one Service of three ports."""
    cluster = FakeCluster()
    names = {"grpc": "41000", "8080": "41001", "80": "41002"}
    annotations = {f"lagbench.io/port-{name}": port for name, port in names.items()}
    ports = [{"name": "grpc", "port": 6000}, {"port": 8080}, {"port": 80}]
    cluster.put(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "scaler", "namespace": "n", "annotations": annotations},
            "spec": {"ports": ports},
        }
    )
    return cluster


def test_a_prometheus_that_is_down_fails_readings_and_nothing_else() -> None:
    """The scaler is built and the metric known, so that failures are counted towards a fallback."""
    metadata = {"serverAddress": f"http://127.0.0.1:{free_port()}", "query": "up"}
    given = {"type": "prometheus", "metadata": {**metadata, "threshold": "0.5"}}
    (trigger,) = parse_scaled_object(scaled_object(triggers=[given]), where="f").triggers
    scaler = LiveSources(FakeCluster(), lambda: 0).scaler(KEY, trigger)

    (spec,) = scaler.metric_specs()

    assert (spec.name, spec.target_milli, spec.kind) == ("s0-prometheus", 500, "External")
    with pytest.raises(ScalerFailed, match=r"^Prometheus at http://127\.0\.0\.1") as first:
        scaler.read(spec.name)
    with pytest.raises(ScalerFailed) as again:
        scaler.read(spec.name)
    assert str(again.value) == str(first.value)  # so that its events are counted as one
    assert "refused" in str(first.value)
    scaler.close()


def test_a_stream_that_keeps_failing_is_opened_after_2_s_doubling_to_60(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A clean end begins with 2 s again."""
    waits: list[float] = []

    def stream(_client: object) -> Any:
        if len(waits) != 7:
            raise NotReady("no server")
        return []

    reader = StreamReader("s", lambda: SimpleNamespace(close=lambda: None), stream, print)
    over = SimpleNamespace(is_set=lambda: len(waits) == 9, wait=waits.append)
    monkeypatch.setattr(reader, "_is_over", over)

    reader.run()

    assert waits == [2, 4, 8, 16, 32, 60, 60, 2, 4]
