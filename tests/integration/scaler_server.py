"""A real gRPC server that speaks KEDA's external scaler contract and says what a test sets."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from lag_scaler.wire import externalscaler_pb2 as wire
from lag_scaler.wire.externalscaler_pb2_grpc import (
    ExternalScalerServicer,
    add_ExternalScalerServicer_to_server,
)
from lagbench.embedded.child_server import free_port


@dataclass
class ScalerServer(ExternalScalerServicer):
    """Serves one metric, whatever the object; ``port`` is set when it listens."""

    metric_name: str = "lag"
    target: float = 10.0
    value: float = 0.0
    is_active: bool = False
    streams_specs: bool = False
    port: int = 0
    asked_about: list[Any] = field(default_factory=list)
    activity: queue.Queue[bool | None] = field(default_factory=queue.Queue)
    specs: queue.Queue[float | None] = field(default_factory=queue.Queue)
    streams_opened: int = 0

    def IsActive(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the name on the wire
        """Say what was set."""
        self.asked_about.append(request)
        return wire.IsActiveResponse(result=self.is_active)

    def GetMetricSpec(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - the name on the wire
        """Offer the one metric."""
        return self._offer(self.target)

    def GetMetrics(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name on the wire
        """Give the value under the name that was asked for."""
        if request.metricName != self.metric_name:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no metric {request.metricName}")
        value = wire.MetricValue(metricName=self.metric_name, metricValueFloat=self.value)
        return wire.GetMetricsResponse(metricValues=[value])

    def StreamIsActive(self, _request: Any, context: Any) -> Iterator[Any]:  # noqa: N802 - the name on the wire
        """Send what a test puts into ``activity``; None ends the stream."""
        self.streams_opened += 1
        while context.is_active():
            try:
                item = self.activity.get(timeout=0.05)
            except queue.Empty:
                continue
            if item is None:
                return
            yield wire.IsActiveResponse(result=item)

    def StreamMetricSpec(self, _request: Any, context: Any) -> Iterator[Any]:  # noqa: N802 - the name on the wire
        """Send a new target for each number that a test puts into ``specs``."""
        if not self.streams_specs:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not implemented!")
        yield self._offer(self.target)
        while context.is_active():
            try:
                item = self.specs.get(timeout=0.05)
            except queue.Empty:
                continue
            if item is None:
                return
            self.target = item
            yield self._offer(item)

    def _offer(self, target: float) -> Any:
        spec = wire.MetricSpec(metricName=self.metric_name, targetSizeFloat=target)
        return wire.GetMetricSpecResponse(metricSpecs=[spec])


@contextmanager
def serving(
    scaler: ScalerServer, *, port: int = 0, credentials: Any = None
) -> Iterator[ScalerServer]:
    """Serve on loopback for the time of the block.

    A server that comes back must find its port free: none that outgoing connections get, and none
    that another server may share.
    """
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=[("grpc.so_reuseport", 0)])
    add_ExternalScalerServicer_to_server(scaler, server)
    address = f"127.0.0.1:{port or free_port()}"
    if credentials is None:
        scaler.port = server.add_insecure_port(address)
    else:
        scaler.port = server.add_secure_port(address, credentials)
    server.start()
    try:
        yield scaler
    finally:
        server.stop(grace=0.2).wait(timeout=60)
