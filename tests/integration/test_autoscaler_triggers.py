"""The autoscaler's other triggers, live: gRPC servers, several at once, pausing, secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl, Setting, running_setting
from tests.integration.scaler_server import ScalerServer, serving
from tests.integration.secured_broker import PASSWORD, USER, secured_broker

from lagbench.embedded.broker import Broker

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


def test_of_two_triggers_the_larger_wins_and_a_dead_server_blocks_both(
    setting: Setting, broker: Broker
) -> None:
    """20 records wish 2 pods, the server 3; without the server nothing moves, and then it does."""
    lag = lag_control(broker.bootstrap_servers)
    lag.set_lag(20)
    setting.deployment("two", replicas=1)
    with serving(ScalerServer(value=30.0, is_active=True)) as server:
        address = f"127.0.0.1:{server.port}"
        external = {"type": "external", "metadata": {"scalerAddress": address}}
        spec = {
            "scaleTargetRef": {"name": "two"},
            "minReplicaCount": 1,
            "maxReplicaCount": 8,
            "pollingInterval": 1,
            "triggers": [lag.trigger(), external],
        }
        setting.create(SO, "two", spec)
        eventually(lambda: setting.replicas("two") == 3, "3 replicas")
        status = (setting.get(SO, "two") or {})["status"]
        assert status["externalMetricNames"] == [f"s0-kafka-{lag.topic}", "s1-lag"]
        assert status["triggersTypes"] == "external,kafka"

    hpa_active = "False:FailedGetExternalMetric"
    eventually(
        lambda: setting.condition(HPA, "keda-hpa-two", "ScalingActive") == hpa_active,
        "an HPA without a metric",
    )
    lag.set_lag(60)
    eventually(
        lambda: setting.condition(SO, "two", "Ready") == "Unknown:PartialTriggerError",
        "one trigger that does not work",
    )
    assert setting.replicas("two") == 3
    with serving(ScalerServer(value=30.0, is_active=True), port=server.port):
        eventually(lambda: setting.replicas("two") == 6, "6 replicas")
    messages = [message for _, _, message in setting.events("two")]
    assert "got empty metric spec" in messages


def test_pausing_removes_the_hpa_and_holds_a_count_until_it_is_taken_away(
    setting: Setting, broker: Broker
) -> None:
    """paused-replicas sets 2 whatever the lag; afterwards a new HPA takes over."""
    lag = lag_control(broker.bootstrap_servers)
    lag.set_lag(40)
    setting.deployment("held", replicas=1)
    spec = {
        "scaleTargetRef": {"name": "held"},
        "minReplicaCount": 1,
        "pollingInterval": 1,
        "triggers": [lag.trigger()],
    }
    setting.create(SO, "held", spec)
    eventually(lambda: setting.replicas("held") == 4, "4 replicas")
    first = setting.get(HPA, "keda-hpa-held")
    annotation = "autoscaling.keda.sh/paused-replicas"
    setting.patch(SO, "held", {"metadata": {"annotations": {annotation: "2"}}})
    eventually(lambda: setting.replicas("held") == 2, "the held count")
    eventually(
        lambda: setting.condition(SO, "held", "Paused") == "True:ScaledObjectPaused", "paused"
    )
    eventually(lambda: setting.get(HPA, "keda-hpa-held") is None, "no HPA")
    eventually(  # told after the replicas have changed
        lambda: (setting.get(SO, "held") or {})["status"].get("pausedReplicaCount") == 2,
        "the count in the status",
    )

    setting.patch(SO, "held", {"metadata": {"annotations": {annotation: None}}})
    eventually(lambda: setting.replicas("held") == 4, "4 replicas again")
    second = setting.get(HPA, "keda-hpa-held")

    assert first is not None
    assert second is not None
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    unpaused = "False:ScaledObjectUnpaused"
    eventually(lambda: setting.condition(SO, "held", "Paused") == unpaused, unpaused)
    expected = {"ScaledObjectPaused", "ScaledObjectUnpaused", "KEDAScalersStopped"}
    eventually(
        lambda: expected <= {reason for _, reason, _ in setting.events("held")}, f"{expected}"
    )


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
            assert (setting.get(SO, name) or {})["status"]["authenticationsTypes"] == name

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
