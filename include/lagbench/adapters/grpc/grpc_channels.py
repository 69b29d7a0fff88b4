"""gRPC channels shared by all who speak to one server with one set of credentials."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from lagbench.core.explain.explain_lag_scaler import Step
from lagbench.errors import NotReady, WrongInput
from lagbench.wire import externalscaler_pb2 as wire
from lagbench.wire.externalscaler_pb2_grpc import ExternalScalerStub

_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.lb_policy_name", "round_robin"),
    # A server that is back is found within seconds; gRPC's own limit is two minutes.
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    # Else a new channel waits out the backoff of one that was closed before it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

_PROBE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class GrpcEndpoint:
    """The properties that identify a channel; ``server_name`` is the name in the certificate."""

    address: str
    server_name: str = ""
    is_tls: bool = False
    skips_verification: bool = False
    ca: str = field(default="", repr=False)
    cert: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


class ChannelPool:
    """One channel per endpoint, closed when its last user gives it back."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._shared: dict[GrpcEndpoint, tuple[grpc.Channel, int]] = {}
        self._lock = threading.Lock()

    def take(self, endpoint: GrpcEndpoint) -> grpc.Channel:
        """Return the endpoint's channel; it connects with its first call."""
        with self._lock:
            channel, users = self._shared.get(endpoint) or (_open(endpoint), 0)
            self._shared[endpoint] = channel, users + 1
            return channel

    def give_back(self, endpoint: GrpcEndpoint) -> None:
        """End one use of the endpoint's channel."""
        with self._lock:
            channel, users = self._shared.pop(endpoint)
            if users > 1:
                self._shared[endpoint] = channel, users - 1
            else:
                channel.close()

    def __len__(self) -> int:
        """Return how many channels are open."""
        return len(self._shared)


def _open(endpoint: GrpcEndpoint) -> grpc.Channel:
    options: list[tuple[str, Any]] = list(_OPTIONS)
    if not endpoint.is_tls:
        return grpc.insecure_channel(endpoint.address, options=options)
    ca, server_name = endpoint.ca.encode() or None, endpoint.server_name
    if endpoint.skips_verification:
        # gRPC always verifies: trust just the certificate that this server shows.
        ca, server_name = _shown_certificate(endpoint)
    if server_name:
        options.append(("grpc.ssl_target_name_override", server_name))
    credentials = grpc.ssl_channel_credentials(
        root_certificates=ca,
        private_key=endpoint.key.encode() or None,
        certificate_chain=endpoint.cert.encode() or None,
    )
    return grpc.secure_channel(endpoint.address, credentials, options=options)


def _shown_certificate(endpoint: GrpcEndpoint) -> tuple[bytes, str]:
    """Return the server's certificate as PEM, and a name that it carries."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    host, _, port = endpoint.address.rpartition(":")
    try:
        pem = ssl.get_server_certificate((host, int(port)), timeout=_PROBE_SECONDS)
    except (OSError, ValueError) as error:
        raise NotReady(f"no TLS server answers at {endpoint.address}: {error}") from error
    certificate = x509.load_pem_x509_certificate(pem.encode())
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = [*names.get_values_for_type(x509.DNSName)]
        found += [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        found = [str(item.value) for item in common]
    # A wildcard matches any one label.
    return pem.encode(), found[0].replace("*", "server") if found else endpoint.server_name


WANTS_STEPS = "lagbench-explain"

STEPS = "lagbench-steps-bin"

_TIMEOUT_SECONDS = 5.0


def steps_as_bytes(steps: Sequence[Step]) -> bytes:
    """Return the steps as they travel."""
    return json.dumps([[step.name, step.seen, step.rule, step.result] for step in steps]).encode()


def ask_for_steps(
    address: str, *, namespace: str, name: str, metadata: Mapping[str, str]
) -> tuple[Step, ...]:
    """Return the steps of the decision that the server at ``address`` serves now (plaintext).

    :raises WrongInput: the server rejects the metadata.
    :raises NotReady: it cannot be reached, has no decision, or is not lagbench's scaler.
    """
    ref = wire.ScaledObjectRef(name=name, namespace=namespace, scalerMetadata=dict(metadata))
    with grpc.insecure_channel(address) as channel:
        make_stub: Any = ExternalScalerStub  # generated code carries no types
        try:
            _, call = make_stub(channel).IsActive.with_call(
                ref, timeout=_TIMEOUT_SECONDS, metadata=((WANTS_STEPS, "1"),)
            )
        except grpc.RpcError as error:
            said = f"{error.code().name}: {error.details()}"
            if error.code() is grpc.StatusCode.INVALID_ARGUMENT:
                raise WrongInput(
                    where=f"scaler at {address}",
                    field="trigger metadata",
                    value=name,
                    allowed=str(error.details()),
                ) from error
            raise NotReady(f"the scaler at {address} gives no decision: {said}") from error
        trailing = dict(call.trailing_metadata() or ())
    if STEPS not in trailing:
        raise NotReady(
            f"the server at {address} answers, but has no explanation: it is not lagbench's"
        )
    return tuple(Step(*parts) for parts in json.loads(trailing[STEPS]))
