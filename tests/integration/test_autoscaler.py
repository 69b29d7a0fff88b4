"""The autoscaler on a real localkube: KEDA's and the HPA's loops, pushes and secrets, live."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.eventually import WAIT_SECONDS, eventually
from tests.integration.autoscaler_setting import (
    BUSY,
    LagControl,
    Setting,
    make_topic,
    running_setting,
)
from tests.integration.scaler_server import ScalerServer, serving
from tests.integration.secured_broker import PASSWORD, USER, secured_broker

from lagbench.embedded.broker import Broker

pytestmark = pytest.mark.slow
FLAGS = ("--hpa-sync-seconds", "1", "--downscale-stabilization-seconds", "3")
SYNC_SECONDS = 240
HPA, SO = "HorizontalPodAutoscaler", "ScaledObject"
READY = "True:ScaledObjectReady"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Provide one localkube with the autoscaler for all tests of this file."""
    with running_setting(tmp_path_factory.mktemp("autoscaler"), *FLAGS) as running:
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


def readings_of_containers(setting: Setting, name: str) -> list[dict[str, Any]]:
    """Return what an HPA's status says of the metrics that are read per container."""
    status = (setting.get(HPA, name) or {}).get("status") or {}
    metrics = status.get("currentMetrics") or []
    return [metric["containerResource"] for metric in metrics if "containerResource" in metric]


def reported_sizes(setting: Setting, hpa: str) -> list[str]:
    """Return the sizes in an HPA's events of rescaling, sorted."""
    return sorted(
        message.split(";")[0]
        for _, reason, message in setting.events(hpa)
        if reason == "SuccessfulRescale"
    )


@pytest.mark.smoke
def test_lag_scales_a_deployment_in_the_steps_of_the_hpa(setting: Setting, broker: Broker) -> None:
    """Lag of 60 at 10 per pod goes 2, 4, 6 and, when it is gone, back to 2; all of it is told."""
    lag = lag_control(broker.bootstrap_servers)
    setting.deployment("w", replicas=2)
    telemetry = f"telemetry-{lag.topic}"
    make_topic(broker.bootstrap_servers, telemetry)
    annotations = {
        "lagbench.io/run-id": "r1",
        "lagbench.io/telemetry-topic": telemetry,
        "lagbench.io/bootstrap-servers": broker.bootstrap_servers,
    }
    spec = {
        "scaleTargetRef": {"name": "w"},
        "minReplicaCount": 2,
        "maxReplicaCount": 8,
        "pollingInterval": 1,
        "triggers": [lag.trigger()],
    }
    made = setting.create(SO, "w", spec, annotations=annotations)

    hpa = eventually(lambda: setting.get(HPA, "keda-hpa-w"), "the HPA")
    eventually(lambda: setting.condition(SO, "w", "Ready") == READY, "Ready")
    lag.set_lag(60)
    eventually(lambda: setting.replicas("w") == 6, "6 replicas")
    eventually(
        lambda: setting.condition(HPA, "keda-hpa-w", "AbleToScale") == "True:ReadyForNewScale",
        "a sync that changes nothing",
    )
    lag.set_lag(0)
    eventually(lambda: setting.replicas("w") == 2, "2 replicas")

    assert hpa["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert hpa["metadata"]["labels"]["scaledobject.keda.sh/name"] == "w"
    assert hpa["metadata"]["annotations"]["lagbench.io/run-id"] == "r1"
    sizes = ["New size: 2", "New size: 4", "New size: 6"]  # told after the replicas have changed
    eventually(lambda: reported_sizes(setting, "keda-hpa-w") == sizes, f"events with {sizes}")

    def changes(records: list[dict[str, Any]]) -> list[tuple[int, int]]:
        scaled = [record for record in records if record["kind"] == "scaled"]
        return [(record["replicas_before"], record["replicas_after"]) for record in scaled]

    records: list[dict[str, Any]] = eventually(
        lambda: len(changes(found := read_records(broker, telemetry))) >= 3 and found,
        "telemetry of three changes",
    )
    assert changes(records) == [(2, 4), (4, 6), (6, 2)]
    assert any(r["kind"] == "hpa_sync" and r["proposal"] == 6 for r in records)
    assert any(r["kind"] == "keda_poll" and r["is_active"] for r in records)


def read_records(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """Return the telemetry records that are there, up to the end of the topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"reader-{uuid4().hex}",
            "auto.offset.reset": "earliest",
        }
    )
    place = TopicPartition(topic, 0, 0)
    end = consumer.get_watermark_offsets(place, 60)[1]
    consumer.assign([place])
    records: list[dict[str, Any]] = []
    gives_up_at = time.monotonic() + WAIT_SECONDS
    while len(records) < end and time.monotonic() < gives_up_at:
        message = consumer.poll(2.0)
        if message is not None and message.error() is None:
            records.append(json.loads(message.value() or b""))
    consumer.close()
    return records


def test_a_stateful_set_is_scaled_and_its_highest_pods_leave(
    setting: Setting, broker: Broker
) -> None:
    """The target's kind decides which scale is written, also beside a Deployment of its name."""
    lag = lag_control(broker.bootstrap_servers)
    setting.deployment("s", replicas=1)
    setting.deployment("s", replicas=1, kind="StatefulSet")
    spec = {
        "scaleTargetRef": {"kind": "StatefulSet", "name": "s"},
        "minReplicaCount": 1,
        "maxReplicaCount": 4,
        "pollingInterval": 1,
        "triggers": [lag.trigger()],
    }
    setting.create(SO, "s", spec)

    hpa = eventually(lambda: setting.get(HPA, "keda-hpa-s"), "the HPA")
    lag.set_lag(60)
    eventually(lambda: setting.replicas("s", "StatefulSet") == 4, "4 replicas")
    numbered = {f"s-{ordinal}" for ordinal in range(4)}
    eventually(lambda: numbered <= set(setting.pods("s")), "the four pods")
    lag.set_lag(20)
    eventually(lambda: setting.replicas("s", "StatefulSet") == 2, "2 replicas")
    eventually(lambda: set(setting.pods("s")) & numbered == {"s-0", "s-1"}, "the lowest two")

    assert hpa["spec"]["scaleTargetRef"]["kind"] == "StatefulSet"
    assert setting.replicas("s") == 1


def test_keda_wakes_from_zero_and_goes_back_after_the_cooldown(
    setting: Setting, broker: Broker
) -> None:
    """From 0 the scale loop starts one pod, the HPA continues, and after the cooldown all go."""
    lag = lag_control(broker.bootstrap_servers)
    setting.deployment("z", replicas=0)
    spec = {
        "scaleTargetRef": {"name": "z"},
        "minReplicaCount": 0,
        "maxReplicaCount": 4,
        "pollingInterval": 1,
        "cooldownPeriod": 2,
        "triggers": [lag.trigger()],
    }
    setting.create(SO, "z", spec)
    eventually(lambda: setting.condition(SO, "z", "Active") == "False:ScalerNotActive", "inactive")
    eventually(
        lambda: setting.condition(HPA, "keda-hpa-z", "ScalingActive") == "False:ScalingDisabled",
        "an HPA that stands still at zero",
    )
    assert setting.replicas("z") == 0

    lag.set_lag(30)
    eventually(lambda: setting.replicas("z") == 3, "3 replicas")
    lag.set_lag(0)
    eventually(lambda: setting.replicas("z") == 0, "no replica")

    moves = {"KEDAScaleTargetActivated", "KEDAScaleTargetDeactivated"}
    eventually(  # told after the replicas have changed
        lambda: moves <= {reason for _, reason, _ in setting.events("z")}, "the events of both"
    )
    status = (setting.get(SO, "z") or {})["status"]
    assert status["originalReplicaCount"] == 0
    assert status["externalMetricNames"] == [f"s0-kafka-{lag.topic}"]
    assert "lastActiveTime" in status


def test_a_broker_that_stops_changes_no_replicas(setting: Setting, own_broker: Broker) -> None:
    """Without a reading the HPA says so and holds; the loops continue and recover by themselves."""
    own_broker.start()
    lag = lag_control(own_broker.bootstrap_servers)
    setting.deployment("b", replicas=1)
    spec = {
        "scaleTargetRef": {"name": "b"},
        "minReplicaCount": 1,
        "maxReplicaCount": 4,
        "pollingInterval": 1,
        "triggers": [lag.trigger()],
    }
    setting.create(SO, "b", spec)
    lag.set_lag(20)
    eventually(lambda: setting.replicas("b") == 2, "2 replicas")

    own_broker.stop()
    eventually(
        lambda: (
            setting.condition(HPA, "keda-hpa-b", "ScalingActive") == "False:FailedGetExternalMetric"
        ),
        "an HPA without a metric",
    )
    assert setting.replicas("b") == 2
    own_broker.start()

    eventually(
        lambda: setting.condition(HPA, "keda-hpa-b", "ScalingActive") == "True:ValidMetricFound",
        "the metric again",
    )
    assert setting.replicas("b") == 2
    reasons = {reason for _, reason, _ in setting.events("keda-hpa-b")}
    assert {"FailedGetExternalMetric", "FailedComputeMetricsReplicas"} <= reasons


def test_a_plain_hpa_on_cpu_follows_the_load_of_the_pods(setting: Setting) -> None:
    """Pods that burn far more than they request are added up to the maximum.

    Read twice: as the whole pod's usage, and as that of its only container.
    """
    setting.deployment("cpu", replicas=1, code=BUSY, cpu="50m")
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cpu"},
        "minReplicas": 1,
        "maxReplicas": 2,
        "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": target}},
            {
                "type": "ContainerResource",
                "containerResource": {"name": "cpu", "container": "main", "target": target},
            },
        ],
    }
    setting.create(HPA, "cpu", spec)

    eventually(lambda: setting.replicas("cpu") == 2, "2 replicas")

    eventually(
        lambda: ((setting.get(HPA, "cpu") or {}).get("status") or {}).get("desiredReplicas") == 2,
        "the status",
    )
    # The first of the two that had a sample at that sync; in the first seconds one may have none.
    resources = "cpu resource utilization", "cpu container resource utilization"
    reasons = {
        f"New size: 2; reason: {name} (percentage of request) above target" for name in resources
    }
    eventually(
        lambda: reasons & {message for _, _, message in setting.events("cpu")}, "the event of it"
    )
    (one,) = eventually(lambda: readings_of_containers(setting, "cpu"), "the container's reading")
    assert one["container"] == "main"
    assert one["current"]["averageUtilization"] > 50


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


def test_sigterm_ends_it_at_once(tmp_path: Path) -> None:
    """SIGTERM ends the program between two syncs with exit code 0 and JSON log lines."""
    with running_setting(tmp_path, "--hpa-sync-seconds", str(SYNC_SECONDS)) as own:
        eventually(lambda: "autoscaler started" in own.log.read_text(), "the start")
        asked_at = time.monotonic()
        own.autoscaler.send_signal(signal.SIGTERM)

        assert own.autoscaler.wait(timeout=SYNC_SECONDS) == 0
        assert time.monotonic() - asked_at < SYNC_SECONDS / 2
        for line in own.log.read_text().splitlines():
            assert json.loads(line)["level"]
