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
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

import grpc
import structlog

from lagbench.adapters.grpc.scaler_explanation import STEPS, WANTS_STEPS, steps_as_bytes
from lagbench.core.lag_scaler import InvalidMetadata, MetadataProblem
from lagbench.errors import NotReady
from lagbench.programs.lag_scaler.metrics import ScalerMetrics
from lagbench.programs.lag_scaler.registry import ObjectRegistry, ScalerFull
from lagbench.programs.lag_scaler.watched import Watched
from lagbench.wire import externalscaler_pb2 as wire
from lagbench.wire import externalscaler_pb2_grpc as wire_grpc

HEARTBEAT_SECONDS = 30.0
STREAMS_PER_OBJECT = 4
"""KEDA has one of each kind, and for a moment the next one of a new connection or a new leader."""
Reply = TypeVar("Reply")
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ScalerService(wire_grpc.ExternalScalerServicer):
    """Answers for every object that KEDA asks about."""

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

    async def IsActive(  # noqa: N802 - the name is the protocol's
        self, request: wire.ScaledObjectRef, context: Any
    ) -> wire.IsActiveResponse:
        """Return whether the object's workload has something to do."""

        async def answer() -> wire.IsActiveResponse:
            watched = await self._sampled(request)
            if any(key == WANTS_STEPS for key, _ in context.invocation_metadata() or ()):
                context.set_trailing_metadata(((STEPS, steps_as_bytes(watched.steps())),))
            return wire.IsActiveResponse(result=watched.decision().is_active)

        return await self._answered("IsActive", context, answer)

    async def GetMetricSpec(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Any
    ) -> wire.GetMetricSpecResponse:
        """Return the metric's name and target; needs no sample, so that KEDA can make the HPA."""

        async def answer() -> wire.GetMetricSpecResponse:
            return _specs(self._registry.find(request))

        return await self._answered("GetMetricSpec", context, answer)

    async def GetMetrics(  # noqa: N802
        self, request: wire.GetMetricsRequest, context: Any
    ) -> wire.GetMetricsResponse:
        """Return the metric's value."""

        async def answer() -> wire.GetMetricsResponse:
            watched = await self._sampled(request.scaledObjectRef)
            name = watched.settings.metric_name
            if request.metricName not in (name, ""):
                raise InvalidMetadata([MetadataProblem("metricName", request.metricName, name)])
            value = watched.decision().metric_value
            return wire.GetMetricsResponse(
                metricValues=[
                    wire.MetricValue(
                        metricName=name, metricValue=round(value), metricValueFloat=value
                    )
                ]
            )

        return await self._answered("GetMetrics", context, answer)

    async def StreamIsActive(  # noqa: N802
        self, request: wire.ScaledObjectRef, context: Any
    ) -> AsyncIterator[wire.IsActiveResponse]:
        """Push the state; see the module."""
        watched = await self._found("StreamIsActive", request, context)
        sent: bool | None = None
        due_at = 0.0
        with self._stream(watched) as news:
            while not self._is_stopping:
                news.clear()
                self._registry.touch(watched)
                now = time.monotonic()
                state = _state(watched)
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
        """Send the specs once: they follow from the metadata, which identifies the object."""
        watched = await self._found("StreamMetricSpec", request, context)
        with self._stream(watched) as news:
            yield _specs(watched)
            while not self._is_stopping:
                news.clear()
                await news.wait()

    async def _sampled(self, ref: wire.ScaledObjectRef) -> Watched:
        watched = self._registry.find(ref)
        if not watched.has_answer:
            await watched.first_answer(self._first_sample_seconds)
        return watched

    async def _answered(
        self, method: str, context: Any, answer: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        began_at = time.perf_counter()
        try:
            reply = await answer()
        except Exception as error:
            self._count(method, _code(error), began_at)
            await _abort(context, error)
        self._count(method, grpc.StatusCode.OK, began_at)
        return reply

    async def _found(self, method: str, ref: wire.ScaledObjectRef, context: Any) -> Watched:
        try:
            watched = self._registry.find(ref)
            if len(watched.listeners) >= STREAMS_PER_OBJECT:
                raise ScalerFull(f"{watched.name} has its {STREAMS_PER_OBJECT} streams")  # noqa: TRY301 - counted as any other
        except Exception as error:
            self._metrics.requests.labels(method, _code(error).name).inc()
            await _abort(context, error)
        self._metrics.requests.labels(method, grpc.StatusCode.OK.name).inc()
        return watched

    @contextlib.contextmanager
    def _stream(self, watched: Watched) -> Any:
        news = asyncio.Event()
        self._streams.add(news)
        watched.listeners.add(news)
        try:
            yield news
        finally:
            self._streams.discard(news)
            watched.listeners.discard(news)

    def _count(self, method: str, code: grpc.StatusCode, began_at: float) -> None:
        self._metrics.requests.labels(method, code.name).inc()
        self._metrics.request_seconds.labels(method).observe(time.perf_counter() - began_at)


def _specs(watched: Watched) -> wire.GetMetricSpecResponse:
    settings = watched.settings
    spec = wire.MetricSpec(
        metricName=settings.metric_name,
        targetSize=round(settings.target),
        targetSizeFloat=settings.target,
    )
    return wire.GetMetricSpecResponse(metricSpecs=[spec])


def _state(watched: Watched) -> bool | None:
    """Return whether the object is active; None while there is no decision."""
    try:
        return watched.decision().is_active
    except NotReady:
        return None


def _code(error: Exception) -> grpc.StatusCode:
    if isinstance(error, InvalidMetadata):
        return grpc.StatusCode.INVALID_ARGUMENT
    if isinstance(error, ScalerFull):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if isinstance(error, NotReady):
        return grpc.StatusCode.UNAVAILABLE
    return grpc.StatusCode.INTERNAL


async def _abort(context: Any, error: Exception) -> NoReturn:
    code = _code(error)
    if code is grpc.StatusCode.INTERNAL:
        _log.error("a call failed", exc_info=error)
        text = f"{type(error).__name__}; the server's log has more"
    else:
        text = str(error)
    await context.abort(code, text)
    raise AssertionError("abort returned")  # it always raises; this tells the type checker
