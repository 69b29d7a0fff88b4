"""KEDA's side of the external scaler contract against a real gRPC server, plain and over TLS."""

from __future__ import annotations

import queue
from functools import partial

import grpc
import pytest
from tests.eventually import eventually
from tests.integration.certificates import Authority
from tests.integration.scaler_server import ScalerServer, serving

from lagbench.adapters.grpc.external_scaler_client import (
    ChannelPool,
    ExternalCallFailed,
    ExternalObject,
    ExternalScalerClient,
    ExternalSpec,
    GrpcEndpoint,
)
from lagbench.programs.autoscaler.trigger_sources import StreamReader

pytestmark = pytest.mark.slow
ABOUT = ExternalObject("w", "n", {"scalerAddress": "a:1", "key": "v"})


def client_of(pool: ChannelPool, endpoint: GrpcEndpoint) -> ExternalScalerClient:
    """Return a client for the object ``n/w``."""
    return ExternalScalerClient(pool, endpoint, ABOUT, timeout_seconds=60)


def test_two_clients_of_one_endpoint_share_a_channel_until_both_are_closed() -> None:
    """The server sees the object and its metadata; the last close ends the connection."""
    pool = ChannelPool()
    with serving(ScalerServer(value=12.5, is_active=True, target=0.25)) as server:
        endpoint = GrpcEndpoint(f"127.0.0.1:{server.port}")
        one, two = client_of(pool, endpoint), client_of(pool, endpoint)

        assert one.metric_specs() == (ExternalSpec("lag", 250),)
        assert two.metric_values("lag") == (12.5,)
        assert one.is_active()
        assert len(pool) == 1
        one.close()
        one.close()
        assert two.is_active()
        two.close()

    assert len(pool) == 0
    asked = server.asked_about[0]
    assert (asked.name, asked.namespace, dict(asked.scalerMetadata)) == (
        "w",
        "n",
        {"scalerAddress": "a:1", "key": "v"},
    )


def test_an_error_is_reported_in_the_words_of_grpc_and_a_server_that_is_back_is_found() -> None:
    """A rejected name and a server that is unreachable both fail the call; nothing is cached."""
    pool = ChannelPool()
    with serving(ScalerServer()) as server:
        port = server.port
        client = client_of(pool, GrpcEndpoint(f"127.0.0.1:{port}"))
        with pytest.raises(ExternalCallFailed, match=r"NotFound .*no metric other"):
            client.metric_values("other")
    with pytest.raises(ExternalCallFailed, match="code = Unavailable"):
        client.is_active()

    client.close()
    with serving(ScalerServer(is_active=True), port=port):
        assert client_of(pool, GrpcEndpoint(f"127.0.0.1:{port}")).is_active()


def test_tls_verifies_the_server_and_shows_the_clients_certificate() -> None:
    """With the authority's certificate the call works, without it not, unverified it does."""
    authority = Authority()
    own, theirs = authority.issue("server"), authority.issue("client")
    ca = authority.certificate
    chain = [(own.private_key.encode(), own.certificate.encode())]
    credentials = grpc.ssl_server_credentials(chain)
    mutual = grpc.ssl_server_credentials(chain, ca.encode(), require_client_auth=True)
    pool = ChannelPool()
    with serving(ScalerServer(is_active=True), credentials=credentials) as server:
        address = f"127.0.0.1:{server.port}"
        trusting = GrpcEndpoint(address, "localhost", is_tls=True, ca=ca)
        doubting = GrpcEndpoint(address, "localhost", is_tls=True)
        careless = GrpcEndpoint(address, "another.name", is_tls=True, skips_verification=True)

        assert client_of(pool, trusting).is_active()
        assert client_of(pool, careless).is_active()
        with pytest.raises(ExternalCallFailed, match="code = Unavailable"):
            client_of(pool, doubting).is_active()
    with serving(ScalerServer(is_active=True), credentials=mutual) as server:
        address = f"127.0.0.1:{server.port}"
        known = GrpcEndpoint(
            address,
            "localhost",
            is_tls=True,
            ca=ca,
            cert=theirs.certificate,
            key=theirs.private_key,
        )
        stranger = GrpcEndpoint(address, "localhost", is_tls=True, ca=ca)

        assert client_of(pool, known).is_active()
        with pytest.raises(ExternalCallFailed):
            client_of(pool, stranger).is_active()
    assert theirs.private_key not in repr(known)


def test_a_stream_delivers_is_opened_again_after_its_end_and_stops_at_once() -> None:
    """Each message arrives; after a clean end the next stream is opened two seconds later."""
    seen: queue.Queue[bool] = queue.Queue()
    pool = ChannelPool()
    with serving(ScalerServer()) as server:
        client = partial(client_of, pool, GrpcEndpoint(f"127.0.0.1:{server.port}"))
        reader = StreamReader(
            "activity", client, ExternalScalerClient.open_activity_stream, seen.put
        )
        optional = StreamReader(
            "specs", client, ExternalScalerClient.open_spec_stream, seen.put, is_optional=True
        )
        reader.start()
        optional.start()
        server.activity.put(True)
        assert seen.get(timeout=120) is True
        optional.join(120)  # the server does not know the method, so the thread has ended
        server.activity.put(None)
        eventually(lambda: server.streams_opened == 2, "the second stream")
        server.activity.put(False)
        assert seen.get(timeout=120) is False

        reader.stop()
        reader.join(120)
    assert seen.empty()
    assert len(pool) == 0
