"""The lag scaler beside a real broker, asked over real gRPC."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import grpc
import pytest
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl
from tests.integration.lag_scaler.scaler_process import (
    Keda,
    ScalerProcess,
    running_scaler,
)

from lagbench.cli import explain_command
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady

pytestmark = pytest.mark.slow
PARTITIONS = 3
SUSTAIN_SECONDS = 2


@pytest.fixture(scope="module")
def lag(broker: Broker) -> LagControl:
    """Provide a group with 100 records of lag on each of three partitions."""
    token = uuid4().hex[:8]
    control = LagControl(broker.bootstrap_servers, f"t-{token}", f"g-{token}", PARTITIONS)
    control.prepare()
    control.set_lag(PARTITIONS * 100)
    return control


@pytest.fixture(scope="module")
def scaler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScalerProcess]:
    """Provide one scaler for the tests that leave it running."""
    with running_scaler(tmp_path_factory.mktemp("scaler"), "--reflection") as running:
        yield running


@pytest.fixture(scope="module")
def channel(scaler: ScalerProcess) -> Iterator[grpc.Channel]:
    """Provide a connection to it."""
    with grpc.insecure_channel(scaler.address) as opened:
        yield opened


def metadata_of(lag: LagControl, **changes: str) -> dict[str, str]:
    """Return a trigger's metadata: a stretch of 2 s suffices, sampled every second."""
    return {
        "scalerAddress": "lagbench-lag-scaler.lagbench:6000",
        "bootstrapServers": lag.bootstrap_servers,
        "topic": lag.topic,
        "consumerGroup": lag.group,
        "lagThreshold": "10",
        "sustainSeconds": str(SUSTAIN_SECONDS),
        "samplingInterval": "1",
        **changes,
    }


def test_each_object_gets_its_own_answer_capped_at_the_partitions(
    channel: grpc.Channel, lag: LagControl, scaler: ScalerProcess
) -> None:
    """Three objects on one server: own thresholds, groups and specs; 300 of lag become 3 x 10."""
    busy = Keda(channel, "busy", metadata_of(lag))
    other_threshold = Keda(channel, "patient", metadata_of(lag, lagThreshold="5000"))
    other_group = Keda(channel, "idle", metadata_of(lag, consumerGroup="nobody-reads"))

    began_at = time.monotonic()
    pushed = busy.stub.StreamIsActive(busy.ref, timeout=300)
    states = [next(pushed).result, next(pushed).result]
    took_seconds = time.monotonic() - began_at
    pushed.cancel()

    assert states == [False, True]
    assert took_seconds > SUSTAIN_SECONDS / 2
    # A scaler that was held up for longer than its samples keep says nothing, then begins anew.
    for keda, wanted in (
        (busy, (True, 30.0, 10.0)),
        (other_threshold, (False, 0.0, 5000.0)),
        (other_group, (False, 0.0, 10.0)),
    ):
        eventually(
            lambda keda=keda, wanted=wanted: keda.answers() == wanted, f"{keda.ref.name}: {wanted}"
        )
    assert 'lagbench_scaler_requests_total{code="OK",method="IsActive"}' in scaler.metrics
    of_busy = f'{{group="{lag.group}",object="n/busy",topic="{lag.topic}"}}'
    figures = {"lag_records": 300.0, "persistent": 1.0, "metric_value": 30.0}
    lines = [f"lagbench_scaler_object_{name}{of_busy} {value}" for name, value in figures.items()]

    def are_told() -> bool:
        told = scaler.metrics
        return all(line in told for line in lines)

    eventually(are_told, f"{lines} in the metrics")
    reasons = [line["why"] for line in scaler.events("decision") if line["object"] == "n/busy"]
    assert any("at or above it on partition 0 for" in reason for reason in reasons)


def test_metadata_that_cannot_work_is_refused_with_field_value_and_what_is_allowed(
    channel: grpc.Channel, lag: LagControl
) -> None:
    """A window shorter than the sustain time never triggers: INVALID_ARGUMENT, not silence."""
    short = Keda(channel, "short", metadata_of(lag, sustainSeconds="120", windowSize="10"))
    wrong = Keda(channel, "wrong", metadata_of(lag, lagThreshold="many"))

    code, said = short.refusal()

    assert code == "INVALID_ARGUMENT"
    assert "windowSize" in said
    assert wrong.refusal()[0] == "INVALID_ARGUMENT"
    assert "lagThreshold = 'many'" in wrong.refusal()[1]


def test_explain_prints_the_steps_of_a_server_and_of_its_own_samples(
    scaler: ScalerProcess,
    lag: LagControl,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A kafka trigger by KEDA's rules, an external one by samples taken here or by the server."""
    kafka = {key: metadata_of(lag)[key] for key in ("bootstrapServers", "topic", "consumerGroup")}
    triggers = [
        {"type": "kafka", "metadata": kafka},
        {"type": "external", "metadata": metadata_of(lag)},
    ]
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "explained", "namespace": "shop"},
        "spec": {"scaleTargetRef": {"name": "consumer"}, "triggers": triggers},
    }
    monkeypatch.setenv("COLUMNS", "300")
    file = tmp_path / "so.yaml"
    file.write_text(yaml.safe_dump(manifest))

    def explained(*, trigger: int, address: str | None = None, seconds: float = 0) -> str:
        try:
            explain_command.explain(
                scaled_object=str(file),
                trigger=trigger,
                scaler=address,
                bootstrap_servers=None,
                for_seconds=seconds,
            )
        except NotReady:  # a machine that is busy may let a sample grow too old
            return ""
        return " ".join(capsys.readouterr().out.split())

    def persistent() -> bool:
        return " persistent " in explained(trigger=1, seconds=6).replace("not persistent", "")

    eventually(lambda: "metric 30" in explained(trigger=0), "a kafka trigger")
    eventually(lambda: "not persistent" in explained(trigger=1), "a single sample")
    eventually(persistent, "a stretch of samples taken here")
    of_server = "lagThreshold 10 records on any one partition"
    eventually(lambda: of_server in explained(trigger=1, address=scaler.address), "the server's")


def test_health_and_reflection_are_served(channel: grpc.Channel) -> None:
    """A probe sees SERVING; with the flag, grpcurl finds the service without a .proto."""
    health = health_pb2_grpc.HealthStub(channel)
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)

    states = [
        health.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status
        for name in ("", "externalscaler.ExternalScaler")
    ]
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    answer = next(reflection.ServerReflectionInfo(iter([ask]), timeout=60))

    assert states == [health_pb2.HealthCheckResponse.SERVING] * 2
    names = {service.name for service in answer.list_services_response.service}
    assert "externalscaler.ExternalScaler" in names
