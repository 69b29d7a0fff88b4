"""KEDA's side of the external scaler contract: every call bounded, errors in gRPC's words."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import grpc

from lag_scaler.explain import STEPS, WANTS_STEPS, Step
from lag_scaler.wire import externalscaler_pb2 as wire
from lag_scaler.wire.externalscaler_pb2_grpc import ExternalScalerStub
from lagbench.errors import NotReady, WrongInput

Message = TypeVar("Message")

# KEDA's default for calls to what it polls.
CALL_TIMEOUT_SECONDS = 3.0


class ExternalCallFailed(NotReady):
    """A call failed; ``is_unimplemented``: the server does not know the method."""

    def __init__(self, message: str, *, is_unimplemented: bool = False) -> None:
        """Keep the one status that callers distinguish from the others."""
        super().__init__(message)
        self.is_unimplemented = is_unimplemented


@dataclass(frozen=True, slots=True)
class ExternalSpec:
    """One metric as the server names it, and its target."""

    metric_name: str
    target_milli: int


@dataclass(frozen=True, slots=True)
class ExternalObject:
    """The trigger that a server is asked about."""

    name: str
    namespace: str
    metadata: Mapping[str, str]


class ExternalScalerClient:
    """Speaks for one trigger; its channel is taken with the first call and given back at close."""

    def __init__(
        self,
        pool: ChannelPool,
        endpoint: GrpcEndpoint,
        about: ExternalObject,
        *,
        timeout_seconds: float = CALL_TIMEOUT_SECONDS,
    ) -> None:
        """Connect lazily: an unreachable server does not prevent the creation of a scaler."""
        self._pool = pool
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._stub: Any = None  # generated code carries no types
        self._lock = threading.Lock()
        self._reference = wire.ScaledObjectRef(
            name=about.name, namespace=about.namespace, scalerMetadata=dict(about.metadata)
        )

    def metric_specs(self) -> tuple[ExternalSpec, ...]:
        """Return the metrics that the server offers for the trigger."""
        with _translated():
            reply = self._calls().GetMetricSpec(self._reference, timeout=self._timeout_seconds)
        return _specs(reply)

    def metric_values(self, metric_name: str) -> tuple[float, ...]:
        """Return the values of one metric, named as the server names it."""
        request = wire.GetMetricsRequest(scaledObjectRef=self._reference, metricName=metric_name)
        with _translated():
            reply = self._calls().GetMetrics(request, timeout=self._timeout_seconds)
        return tuple(
            item.metricValueFloat if item.metricValueFloat > 0 else float(item.metricValue)
            for item in reply.metricValues
        )

    def is_active(self) -> bool:
        """Ask whether the trigger is active."""
        with _translated():
            reply = self._calls().IsActive(self._reference, timeout=self._timeout_seconds)
        return bool(reply.result)

    def open_activity_stream(self) -> ServerStream[bool]:
        """Open StreamIsActive; messages and errors come from iterating it."""
        call = self._calls().StreamIsActive(self._reference)
        return ServerStream(call, lambda reply: bool(reply.result))

    def open_spec_stream(self) -> ServerStream[tuple[ExternalSpec, ...]]:
        """Open StreamMetricSpec; messages and errors come from iterating it."""
        return ServerStream(self._calls().StreamMetricSpec(self._reference), _specs)

    def close(self) -> None:
        """Give the channel back; a second call has no effect."""
        with self._lock:
            if self._stub is not None:
                self._stub = None
                self._pool.give_back(self._endpoint)

    def _calls(self) -> Any:
        with self._lock:
            if self._stub is None:
                make_stub: Any = ExternalScalerStub
                self._stub = make_stub(self._pool.take(self._endpoint))
            return self._stub


class ServerStream(Generic[Message]):
    """One open stream: iterate it for messages, ``cancel`` it from another thread."""

    def __init__(self, call: Any, read: Callable[[Any], Message]) -> None:
        """Take the call and the function that reads its messages."""
        self._call = call
        self._read = read

    def __iter__(self) -> Iterator[Message]:
        """Yield messages until the server ends the stream; ``ExternalCallFailed`` on errors."""
        with _translated():
            for reply in self._call:
                yield self._read(reply)

    def cancel(self) -> None:
        """End the stream from this side."""
        self._call.cancel()


def _specs(reply: Any) -> tuple[ExternalSpec, ...]:
    return tuple(
        ExternalSpec(
            item.metricName,
            int(item.targetSizeFloat * 1000)
            if item.targetSizeFloat > 0
            else item.targetSize * 1000,
        )
        for item in reply.metricSpecs
    )


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        code = error.code()
        words = "".join(word.capitalize() for word in code.name.split("_"))
        raise ExternalCallFailed(
            f"rpc error: code = {words} desc = {error.details()}",
            is_unimplemented=code is grpc.StatusCode.UNIMPLEMENTED,
        ) from error
    except ValueError as error:  # a channel that was closed meanwhile
        raise ExternalCallFailed(f"rpc error: code = Canceled desc = {error}") from error


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


_TIMEOUT_SECONDS = 5.0


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
