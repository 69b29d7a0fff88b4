"""The lag scaler ends, starts again, loses its broker and checks its clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import grpc
import psutil
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl
from tests.integration.certificates import Authority
from tests.integration.lag_scaler.scaler_process import Keda, ScalerProcess, running_scaler

from lag_scaler.service import STREAMS_PER_OBJECT
from lagbench.embedded.broker import Broker
from lagbench.embedded.child_server import free_port
from localkube.processes import is_alive

pytestmark = pytest.mark.slow

INTERVAL_SECONDS = 60


def lagging_group(broker: Broker) -> dict[str, str]:
    """Return the metadata of a group with 50 records of lag on its only partition."""
    token = uuid4().hex[:8]
    control = LagControl(broker.bootstrap_servers, f"t-{token}", f"g-{token}", partitions=1)
    control.prepare()
    control.set_lag(50)
    return {
        "bootstrapServers": broker.bootstrap_servers,
        "topic": control.topic,
        "consumerGroup": control.group,
        "lagThreshold": "10",
        "sustainSeconds": "2",
        "samplingInterval": "1",
    }


def test_a_restart_keeps_the_sustain_clock_and_ends_open_streams_cleanly(
    broker: Broker, tmp_path: Path
) -> None:
    """SIGTERM ends the stream with OK before its next sample; the next process continues."""
    # The next process has 2.5 intervals of time for its first sample.
    metadata = lagging_group(broker) | {
        "samplingInterval": str(INTERVAL_SECONDS),
        "sustainSeconds": "600",
    }
    state = f"--state-file={tmp_path / 'state'}"
    with running_scaler(tmp_path, state) as first, grpc.insecure_channel(first.address) as channel:
        keda = Keda(channel, "restarted", metadata)
        stream = keda.stub.StreamIsActive(keda.ref, timeout=600)
        assert next(stream).result is False
        began_ns = first.events("decision")[0]["sample_at_ns"]

        took_seconds = first.end()

        assert list(stream) == []
        assert stream.code() is grpc.StatusCode.OK
        assert took_seconds < INTERVAL_SECONDS
    with running_scaler(tmp_path, state) as second:
        resumed = eventually(lambda: second.events("decision"), "a decision before KEDA asks")[0]

    assert resumed["sample_at_ns"] > began_ns
    span_seconds = (resumed["sample_at_ns"] - began_ns) / 1e9
    assert resumed["stretch_seconds"] == pytest.approx(span_seconds, abs=0.01)


def test_a_broker_that_is_away_is_an_error_and_never_the_last_decision(
    own_broker: Broker, tmp_path: Path
) -> None:
    """Active, then UNAVAILABLE while the broker is down, then a decision again, no restart."""
    own_broker.start()
    metadata = lagging_group(own_broker)
    with running_scaler(tmp_path) as scaler, grpc.insecure_channel(scaler.address) as channel:
        keda = Keda(channel, "cut-off", metadata)
        eventually(keda.says_active, "the lag persists")

        own_broker.stop(grace_seconds=0)
        code, said = eventually(
            lambda: answer if (answer := keda.refusal())[0] != "OK" else None, "an error"
        )
        specs_meanwhile = keda.spec().targetSizeFloat
        newcomer = Keda(channel, "newcomer", metadata | {"lagThreshold": "11"})
        newcomer_code, _ = newcomer.refusal()
        own_broker.start()
        eventually(keda.says_active, "the lag persists again")

    assert code == newcomer_code == "UNAVAILABLE"
    assert "old" in said
    assert specs_meanwhile == 10.0
    assert scaler.events("no decision")
    assert scaler.events("samples are good again")


def test_a_killed_scaler_leaves_no_process_behind(tmp_path: Path) -> None:
    """Neither the readers of two clusters, which wait for brokers, nor what forks them.

    multiprocessing has two processes of its own: one forks, one tracks resources.
    """
    metadata = {"topic": "t", "consumerGroup": "g"}
    with running_scaler(tmp_path) as scaler, grpc.insecure_channel(scaler.address) as channel:
        for port in (1, 2):
            Keda(channel, "o", metadata | {"bootstrapServers": f"127.0.0.1:{port}"}).spec()
        process = psutil.Process(scaler.process.pid)
        begun = eventually(
            lambda: found if len(found := process.children(recursive=True)) == 4 else None,
            "a forking process and two readers",
        )

        scaler.process.kill()

        eventually(lambda: not any(is_alive(item.pid) for item in begun), "the end of all")


def test_with_mutual_tls_only_a_client_with_a_certificate_is_answered(tmp_path: Path) -> None:
    """The server proves itself and asks for proof; plaintext and strangers get no answer."""
    authority = Authority()
    server, client = authority.issue("scaler"), authority.issue("keda")
    files = {"cert": server.certificate, "key": server.private_key, "ca": authority.certificate}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    flags = [f"--tls-cert={tmp_path / 'cert'}", f"--tls-key={tmp_path / 'key'}"]
    trusted = authority.certificate.encode()
    with running_scaler(tmp_path, *flags, f"--client-ca={tmp_path / 'ca'}") as scaler:
        known = grpc.ssl_channel_credentials(
            trusted, client.private_key.encode(), client.certificate.encode()
        )
        codes = []
        for credentials in (known, grpc.ssl_channel_credentials(trusted)):
            with grpc.secure_channel(scaler.address, credentials) as channel:
                codes.append(Keda(channel, "who", {"topic": ""}).refusal()[0])
        with grpc.insecure_channel(scaler.address) as channel:
            codes.append(Keda(channel, "who", {}).refusal()[0])
        text = scaler.log_file.read_text()

    assert codes == ["INVALID_ARGUMENT", "UNAVAILABLE", "UNAVAILABLE"]
    assert "PRIVATE KEY" not in text


OBJECTS, CLUSTERS = 3, 2


@pytest.fixture(scope="module")
def scaler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScalerProcess]:
    """Provide a scaler with low limits."""
    flags = [f"--max-objects={OBJECTS}", f"--max-clusters={CLUSTERS}"]
    folder = tmp_path_factory.mktemp("scaler")
    with running_scaler(folder, *flags, "--allowed-brokers=127.0.0.1:*") as running:
        yield running


@pytest.fixture
def channel(scaler: ScalerProcess) -> Iterator[grpc.Channel]:
    """Provide a connection to it."""
    with grpc.insecure_channel(scaler.address) as opened:
        yield opened


def keda(channel: grpc.Channel, name: str, **changes: str) -> Keda:
    """Return an object of a cluster that does not answer; its spec needs no sample."""
    metadata = {"bootstrapServers": "127.0.0.1:1", "topic": "t", "consumerGroup": "g"}
    return Keda(channel, name, {**metadata, "samplingInterval": "60", **changes})


def code_of(asked: Keda) -> str:
    """Return the code of the answer to a request for its spec; a message is short."""
    try:
        asked.spec()
    except grpc.RpcError as error:
        code, message = error.code().name, str(error.details())
    else:
        return "OK"
    assert len(message) < 300
    return str(code)


def test_a_caller_gets_no_more_than_its_share_and_the_others_keep_theirs(
    channel: grpc.Channel, scaler: ScalerProcess
) -> None:
    """Each limit has a code and a short message; objects that are watched are still answered."""
    known = keda(channel, "known")
    assert code_of(known) == "OK"

    assert code_of(keda(channel, "long", team="x" * 70_000)) == "RESOURCE_EXHAUSTED"
    assert code_of(keda(channel, "wide", **{f"k{n}": "" for n in range(200)})) == "INVALID_ARGUMENT"
    ranges = keda(channel, "ranges", partitionLimitation="0-2147483647")
    assert code_of(ranges) == "INVALID_ARGUMENT"
    assert code_of(keda(channel, "far", bootstrapServers="10.0.0.1:22")) == "INVALID_ARGUMENT"
    for number in range(2, CLUSTERS + 1):
        assert code_of(keda(channel, "c", bootstrapServers=f"127.0.0.1:{number}")) == "OK"
    one_more_cluster = keda(channel, "c", bootstrapServers=f"127.0.0.1:{free_port()}")
    assert code_of(one_more_cluster) == "RESOURCE_EXHAUSTED"
    for number in range(CLUSTERS, OBJECTS):
        assert code_of(keda(channel, f"o{number}")) == "OK"
    assert code_of(keda(channel, "one-more")) == "RESOURCE_EXHAUSTED"

    assert code_of(known) == "OK"
    assert f"lagbench_scaler_objects {OBJECTS}.0" in scaler.metrics
    assert 'code="RESOURCE_EXHAUSTED",method="GetMetricSpec"} 2.0' in scaler.metrics
    assert len(scaler.log_file.read_bytes()) < 20_000


def test_an_object_has_a_limited_number_of_streams(channel: grpc.Channel) -> None:
    """One that ends makes room for the next."""
    known = keda(channel, "known")
    with ExitStack() as open_streams:
        for _ in range(STREAMS_PER_OBJECT):
            stream = known.stub.StreamMetricSpec(known.ref, timeout=60)
            open_streams.callback(stream.cancel)
            next(stream)
        with pytest.raises(grpc.RpcError) as refusal:
            next(known.stub.StreamIsActive(known.ref, timeout=60))
        assert refusal.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert code_of(known) == "OK"


def test_the_service_describes_itself_to_nobody_unless_asked_to(channel: grpc.Channel) -> None:
    """Reflection needs its flag."""
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.RpcError) as refusal:
        next(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([ask])))

    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
