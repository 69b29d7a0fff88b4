"""What one caller may ask of the lag scaler, over real gRPC; no broker is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.integration.lag_scaler.scaler_process import Keda, ScalerProcess, running_scaler

from lagbench.embedded.ports import free_port
from lagbench.programs.lag_scaler.service import STREAMS_PER_OBJECT

pytestmark = pytest.mark.slow
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
