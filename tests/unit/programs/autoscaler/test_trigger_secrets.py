"""Secrets of triggers: where they come from, when they are read again, what is missing."""

from __future__ import annotations

from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.autoscaler_world import KEY, World, kafka, scaled_object, stored, world
from tests.fakes.cluster import FakeCluster

from lagbench.adapters.kube.followed_cluster import SCALED_OBJECT, Manifest
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


def authenticated(kind: str = "TriggerAuthentication", **metadata: str) -> dict[str, Any]:
    """Return a kafka trigger with a password from the authentication ``login``."""
    reference = {"name": "login", "kind": kind}
    return {**kafka(sasl="plaintext", **metadata), "authenticationRef": reference}


def put_login(here: World, *, value: str, namespace: str = "n") -> None:
    """Store the Secret that holds the login."""
    data = {"user": b64encode(b"alice").decode(), "pass": b64encode(value.encode()).decode()}
    here.cluster.put(stored("Secret", "s", namespace=namespace, data=data))


def login(kind: str = "TriggerAuthentication") -> Manifest:
    """Return the authentication that reads it."""
    references = [
        {"parameter": "username", "name": "s", "key": "user"},
        {"parameter": "password", "name": "s", "key": "pass"},
    ]
    place = "" if kind.startswith("Cluster") else "n"
    spec = {"secretTargetRef": references}
    return stored(kind, "login", "keda.sh/v1alpha1", namespace=place, spec=spec)


def test_a_changed_secret_counts_when_the_scalers_are_built_anew() -> None:
    """The first poll uses the first password; an error makes KEDA read the Secret again."""
    here = world(scaled_object(triggers=[authenticated()]))
    here.cluster.put(login())
    put_login(here, value="first")
    here.worker.step()
    put_login(here, value="second")
    here.after(10)
    before = list(here.source.passwords)
    here.source.failing = {0}
    here.after(10)

    assert before == ["first"]
    assert here.source.passwords[1:] == ["second"]


@pytest.mark.parametrize("missing", ["authentication", "secret"])
def test_without_its_secret_the_trigger_says_what_it_lacks_until_it_is_there(missing: str) -> None:
    """KEDA finds the parameter empty, not the object missing; a retry then succeeds."""
    here = world(scaled_object(triggers=[authenticated()]))
    if missing == "authentication":
        put_login(here, value="p")
    else:
        here.cluster.put(login())
    delay = here.worker.step()
    said = here.condition(SCALED_OBJECT, KEY, "Ready")["message"]
    here.cluster.put(login())
    put_login(here, value="p")
    here.after(delay)

    assert "username" in said
    assert here.shown("Ready") == "True:ScaledObjectReady"


def test_the_secrets_of_the_cluster_wide_kind_lie_in_kedas_namespace() -> None:
    """A Secret of the same name beside the object is not looked at."""
    kind = "ClusterTriggerAuthentication"
    here = world(scaled_object(triggers=[authenticated(kind)]))
    here.cluster.put(login(kind))
    put_login(here, value="other")
    put_login(here, value="kedas", namespace="keda")
    here.worker.step()

    assert here.source.passwords == ["kedas"]


def test_parameters_from_the_environment_follow_the_references_of_the_container() -> None:
    """Plain values, Secret keys and whole ConfigMaps of the named container are read."""
    trigger = kafka(
        topic="",
        topicFromEnv="TOPIC",
        consumerGroup="",
        consumerGroupFromEnv="APP_GROUP",
        bootstrapServers="",
        bootstrapServersFromEnv="SERVERS",
    )
    manifest = scaled_object(triggers=[trigger])
    manifest["spec"]["scaleTargetRef"]["envSourceContainerName"] = "main"
    here = world(manifest)
    put_login(here, value="from-secret:9092")
    here.cluster.put(stored("ConfigMap", "c", data={"GROUP": "g1"}))
    container = {
        "name": "main",
        "envFrom": [{"prefix": "APP_", "configMapRef": {"name": "c"}}],
        "env": [
            {"name": "TOPIC", "value": "t1"},
            {"name": "SERVERS", "valueFrom": {"secretKeyRef": {"name": "s", "key": "pass"}}},
        ],
    }
    pod_spec = {"containers": [{"name": "proxy"}, container]}
    here.cluster.put(stored("Deployment", "w", "apps/v1", spec={"template": {"spec": pod_spec}}))
    here.worker.step()

    assert here.status()["externalMetricNames"] == ["s0-kafka-t1"]


def test_no_event_or_condition_holds_a_secret() -> None:
    """A rejected trigger is told without the values that it got."""
    here = world(scaled_object(triggers=[authenticated(lagThreshold="0")]))
    here.cluster.put(login())
    put_login(here, value="open-sesame")
    here.worker.step()

    assert "lagThreshold" in str(here.cluster.events("w"))
    assert "open-sesame" not in str(here.cluster.objects[SCALED_OBJECT, KEY])
    assert "open-sesame" not in str(here.cluster.events("w"))


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
    service = stored("Service", "scaler", spec={"ports": ports})
    service["metadata"]["annotations"] = annotations
    cluster.put(service)
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
