"""KEDA's side of the external scaler contract: every call bounded, errors in gRPC's words."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc

from lagbench.adapters.grpc.grpc_channels import ChannelPool, GrpcEndpoint
from lagbench.errors import NotReady
from lagbench.wire import externalscaler_pb2 as wire
from lagbench.wire.externalscaler_pb2_grpc import ExternalScalerStub

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
