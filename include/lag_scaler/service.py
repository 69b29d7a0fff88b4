"""Serve KEDA's five calls: each looks up a decision of the sampler, at a constant cost.

No reply is cached by the request's bytes: Go writes the entries of a map in a random order, so the
same object has as many serializations as its metadata has orders. Parsing one takes some 5 us.

StreamIsActive sends the state when it is first known and at once when it changes. It repeats the
state every 30 s, which is KEDA's default pollingInterval: KEDA's last state is then never older
than with polling, and a connection that has silently ended is noticed. While there is no decision
it sends nothing and stays open: ended streams are reopened only after up to 60 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import structlog

from lag_scaler.explain import STEPS, WANTS_STEPS, explain
from lag_scaler.metadata import InvalidMetadata, MetadataProblem
from lag_scaler.metrics import ScalerMetrics
from lag_scaler.registry import ObjectRegistry, ScalerFull
from lag_scaler.watched import Watched
from lag_scaler.wire import externalscaler_pb2 as wire
from lag_scaler.wire import externalscaler_pb2_grpc as wire_grpc
from pod_program.errors import NotReady

HEARTBEAT_SECONDS = 30.0

STREAMS_PER_OBJECT = 4
"""KEDA has one of each kind, and for a moment the next one of a new connection or a new leader."""

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ScalerService(wire_grpc.ExternalScalerServicer):
    """Answers for every object that KEDA asks about; the names are the protocol's."""

    def __init__(
        self, registry: ObjectRegistry, metrics: ScalerMetrics, *, first_sample_seconds: float
    ) -> None:
        """Answer from ``registry``; a new object's first call may wait ``first_sample_seconds``."""
        self._registry, self._metrics = registry, metrics
        self._first_sample_seconds = first_sample_seconds
        self._streams: set[asyncio.Event] = set()
        self._is_stopping = False

    def end_streams(self) -> None:
        """End every open stream cleanly: KEDA opens a new one 2 s after a clean end."""
        self._is_stopping = True
        for stream in self._streams:
            stream.set()

    async def IsActive(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Any
    ) -> wire.IsActiveResponse:
        """Return whether the object's workload has something to do."""
        async with self._answering("IsActive", context):
            watched = await self._sampled(request)
            decision = watched.decision()
            if any(key == WANTS_STEPS for key, _ in context.invocation_metadata() or ()):
                steps = explain(decision, watched.now_ns())
                context.set_trailing_metadata(((STEPS, json.dumps(steps).encode()),))
            return wire.IsActiveResponse(result=decision.is_active)

    async def GetMetricSpec(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Any
    ) -> wire.GetMetricSpecResponse:
        """Return the metric's name and target; needs no sample, so that KEDA can make the HPA."""
        async with self._answering("GetMetricSpec", context):
            return _specs(self._registry.find(request))

    async def GetMetrics(  # noqa: N802
        self, request: wire.GetMetricsRequest, context: Any
    ) -> wire.GetMetricsResponse:
        """Return the metric's value."""
        async with self._answering("GetMetrics", context):
            watched = await self._sampled(request.scaledObjectRef)
            name = watched.settings.metric_name
            if request.metricName not in (name, ""):
                raise InvalidMetadata([MetadataProblem("metricName", request.metricName, name)])
            value = watched.decision().metric_value
            found = wire.MetricValue(
                metricName=name, metricValue=round(value), metricValueFloat=value
            )
            return wire.GetMetricsResponse(metricValues=[found])

    async def StreamIsActive(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Any
    ) -> AsyncIterator[wire.IsActiveResponse]:
        """Push the state; see the module."""
        watched = await self._streamed("StreamIsActive", request, context)
        sent: bool | None = None
        due_at = 0.0
        with self._stream(watched) as news:
            while not self._is_stopping:
                news.clear()
                self._registry.touch(watched)
                now = time.monotonic()
                state = None
                with contextlib.suppress(NotReady):
                    state = watched.decision().is_active
                if state is not None and (state != sent or now >= due_at):
                    sent, due_at = state, now + HEARTBEAT_SECONDS
                    yield wire.IsActiveResponse(result=state)
                    continue  # what changed while it was being sent
                wait_seconds = due_at - now if due_at > now else HEARTBEAT_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), wait_seconds)

    async def StreamMetricSpec(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Any
    ) -> AsyncIterator[wire.GetMetricSpecResponse]:
        """Send the specs, and again with each step of the metric (``syncOnStep``)."""
        watched = await self._streamed("StreamMetricSpec", request, context)
        sent: float | None = None
        with self._stream(watched) as news:
            while not self._is_stopping:
                news.clear()
                if watched.target != sent:
                    sent = watched.send_target()
                    self._metrics.specs_sent.inc()
                    yield _specs(watched)
                    continue  # what changed while it was being sent
                await news.wait()

    async def _sampled(self, ref: wire.ScaledObjectRef) -> Watched:
        watched = self._registry.find(ref)
        if not watched.is_answered.is_set():
            await watched.first_answer(self._first_sample_seconds)
        return watched

    async def _streamed(self, method: str, ref: wire.ScaledObjectRef, context: Any) -> Watched:
        async with self._answering(method, context, is_timed=False):
            watched = self._registry.find(ref)
            if len(watched.listeners) >= STREAMS_PER_OBJECT:
                raise ScalerFull(f"{watched.name} has its {STREAMS_PER_OBJECT} streams")
            return watched

    @contextlib.asynccontextmanager
    async def _answering(
        self, method: str, context: Any, *, is_timed: bool = True
    ) -> AsyncIterator[None]:
        """Count the answer of the block, and give its errors gRPC's codes."""
        began_at, code, failed = time.perf_counter(), grpc.StatusCode.OK, None
        try:
            yield
        except Exception as error:
            code, failed = _code(error), error
        self._metrics.requests.labels(method, code.name).inc()
        if is_timed:
            seconds = time.perf_counter() - began_at
            self._metrics.request_seconds.labels(method).observe(seconds)
        if failed is not None:
            text = str(failed)
            if code is grpc.StatusCode.INTERNAL:
                _log.error("a call failed", exc_info=failed)
                text = f"{type(failed).__name__}; the server's log has more"
            await context.abort(code, text)

    @contextlib.contextmanager
    def _stream(self, watched: Watched) -> Iterator[asyncio.Event]:
        news = asyncio.Event()
        self._streams.add(news)
        watched.listeners.add(news)
        try:
            yield news
        finally:
            self._streams.discard(news)
            watched.listeners.discard(news)


def _specs(watched: Watched) -> wire.GetMetricSpecResponse:
    target = watched.target
    spec = wire.MetricSpec(
        metricName=watched.settings.metric_name, targetSize=round(target), targetSizeFloat=target
    )
    return wire.GetMetricSpecResponse(metricSpecs=[spec])


def _code(error: Exception) -> grpc.StatusCode:
    for kind, code in (
        (InvalidMetadata, grpc.StatusCode.INVALID_ARGUMENT),
        (ScalerFull, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (NotReady, grpc.StatusCode.UNAVAILABLE),
    ):
        if isinstance(error, kind):
            return code
    return grpc.StatusCode.INTERNAL
