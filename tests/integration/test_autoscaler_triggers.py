"""The autoscaler's other triggers, live: a gRPC server that pushes, and secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl, Setting, running_setting
from tests.integration.scaler_server import ScalerServer, serving
from tests.integration.secured_broker import PASSWORD, USER, secured_broker

pytestmark = pytest.mark.slow
FLAGS = ("--hpa-sync-seconds", "1", "--downscale-stabilization-seconds", "2")
HPA, SO = "HorizontalPodAutoscaler", "ScaledObject"
READY = "True:ScaledObjectReady"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Provide one localkube with the autoscaler for all tests of this file."""
    with running_setting(tmp_path_factory.mktemp("triggers"), *FLAGS) as running:
        yield running


@pytest.fixture
def setting(shared: Setting) -> Iterator[Setting]:
    """Provide the setting and delete afterwards what a test made."""
    yield shared
    shared.clean()
    assert shared.autoscaler.poll() is None


def lag_control(bootstrap_servers: str) -> LagControl:
    """Return a new topic and group without lag."""
    token = uuid4().hex[:8]
    control = LagControl(bootstrap_servers, f"t-{token}", f"g-{token}", partitions=6)
    control.prepare()
    return control


def target_milli(setting: Setting, name: str) -> str:
    """Return the target of an HPA's one metric, as written."""
    metrics = (setting.get(HPA, name) or {"spec": {"metrics": []}})["spec"]["metrics"]
    return str(metrics[0]["external"]["target"]["averageValue"]) if metrics else ""


def test_a_push_wakes_the_target_at_once_and_streamed_specs_change_the_hpa(
    setting: Setting,
) -> None:
    """Long before the next poll 0 becomes 1; the server is found by its Service's name."""
    setting.deployment("push", replicas=0)
    with serving(ScalerServer(value=30.0, streams_specs=True)) as server:
        port = {"name": "grpc", "port": 6000}
        annotations = {"lagbench.io/port-grpc": str(server.port)}
        setting.create("Service", "scaler", {"ports": [port]}, annotations=annotations)
        metadata = {"scalerAddress": "scaler.scaled.svc.cluster.local:6000", "topic": "t"}
        spec = {
            "scaleTargetRef": {"name": "push"},
            "pollingInterval": 600,
            "maxReplicaCount": 4,
            "triggers": [{"type": "external-push", "metadata": metadata}],
        }
        setting.create(SO, "push", spec)
        eventually(lambda: server.streams_opened, "the stream")
        inactive = "False:ScalerNotActive"  # Unknown is written before the first poll
        eventually(lambda: setting.condition(SO, "push", "Active") == inactive, "the first poll")
        assert setting.replicas("push") == 0

        server.activity.put(False)
        server.activity.put(True)
        eventually(lambda: setting.replicas("push") == 3, "1 by the push, 3 by the HPA")
        server.specs.put(15.0)
        eventually(lambda: target_milli(setting, "keda-hpa-push") == "15", "the new target")
        eventually(lambda: setting.replicas("push") == 2, "2 replicas")

    asked = server.asked_about[0]
    assert (asked.name, asked.namespace) == ("push", "scaled")
    assert dict(asked.scalerMetadata) == metadata
    assert "KEDAScaleTargetActivated" in [reason for _, reason, _ in setting.events("push")]


def test_secrets_open_a_broker_that_wants_tls_scram_or_a_plain_password(
    setting: Setting, tmp_path: Any
) -> None:
    """TLS with a client's certificate and SCRAM-SHA-512, then SASL PLAIN; no log holds a secret."""
    with secured_broker(tmp_path / "secured") as secured:
        lag = lag_control(secured.broker.bootstrap_servers)
        lag.set_lag(30)
        login = {"username": USER, "password": PASSWORD}
        setting.secret("tls", {**login, **secured.client_pem, "sasl": "scram_sha512"})
        setting.secret("plain", login)
        for name, servers, extra in (
            ("tls", secured.tls_servers, {"tls": "enable"}),
            ("plain", secured.sasl_servers, {"sasl": "plaintext"}),
        ):
            setting.deployment(name, replicas=1)
            trigger = lag.trigger()
            trigger["metadata"] |= {"bootstrapServers": servers, **extra}
            trigger["authenticationRef"] = {"name": name}
            spec = {
                "scaleTargetRef": {"name": name},
                "minReplicaCount": 1,
                "pollingInterval": 1,
                "triggers": [trigger],
            }
            setting.create(SO, name, spec)
        for name in ("tls", "plain"):
            eventually(lambda name=name: setting.replicas(name) == 3, f"3 of {name}")
            eventually(lambda name=name: setting.condition(SO, name, "Ready") == READY, READY)

        setting.patch("Secret", "plain", {"stringData": {"password": "wrong"}})
        setting.patch(SO, "plain", {"spec": {"maxReplicaCount": 7}})
        refused = "False:ScaledObjectCheckFailed"
        eventually(
            lambda: setting.condition(SO, "plain", "Ready") == refused,
            "a refused login",
        )
    said = setting.log.read_text() + str(setting.events("plain")) + str(setting.events("tls"))
    assert PASSWORD not in said
    assert "PRIVATE KEY" not in said
