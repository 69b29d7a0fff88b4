"""The program's life: start, serve, write the state now and then, finish open calls, end.

At SIGTERM: health says NOT_SERVING, streams end cleanly, open calls get ``drain_seconds``, the
state is written. Nothing waits longer than that for a broker or a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from lagbench.core.lag_scaler import allowed_servers_of
from lagbench.errors import NotReady
from lagbench.programs.http_endpoint import HttpEndpoint, probe_routes
from lagbench.programs.lag_scaler.metrics import ScalerMetrics
from lagbench.programs.lag_scaler.options import ScalerOptions
from lagbench.programs.lag_scaler.registry import ObjectRegistry
from lagbench.programs.lag_scaler.saved_state import decode_state, encode_state
from lagbench.programs.lag_scaler.server_credentials import server_credentials
from lagbench.programs.lag_scaler.service import ScalerService
from lagbench.programs.lag_scaler.state_file import StateFile
from lagbench.programs.steady_clock import SteadyClock
from lagbench.wire import externalscaler_pb2 as wire
from lagbench.wire import externalscaler_pb2_grpc as wire_grpc

SERVICE_NAME: str = wire.DESCRIPTOR.services_by_name["ExternalScaler"].full_name
_TIDY_SECONDS = 10.0
_LAST_STATE_SECONDS = 2.0
# A peer that is gone without a word is noticed after 80 s at most, whatever the streams send.
_KEEPALIVE = (("grpc.keepalive_time_ms", 60_000), ("grpc.keepalive_timeout_ms", 20_000))
# An object's metadata is some 500 bytes; certificates of its login are a few KB.
_LONGEST_MESSAGE_BYTES = 64 * 1024
_CHANNEL_OPTIONS = (
    # Only one process may have the port: two would share it, each with windows of its own.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", _LONGEST_MESSAGE_BYTES),
    *_KEEPALIVE,
)
# KEDA has all its calls on one connection: two streams and two calls for each object.
_CALLS_PER_OBJECT = 4
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Parts:
    registry: ObjectRegistry
    metrics: ScalerMetrics
    state: StateFile | None


async def serve(
    options: ScalerOptions, environment: Mapping[str, str], until: asyncio.Event
) -> None:
    """Serve until ``until`` is set.

    :raises NotReady: a port cannot be had, or a certificate cannot be read.
    """
    metrics = ScalerMetrics()
    registry = ObjectRegistry(
        environment,
        metrics,
        now_ns=SteadyClock().now_ns,
        idle_seconds=options.idle_seconds,
        max_objects=options.max_objects,
        max_clusters=options.max_clusters,
        allowed_servers=_allowed_servers(options, environment),
    )
    state = StateFile(options.state_file) if options.state_file is not None else None
    parts = _Parts(registry, metrics, state)
    _restore(parts)
    service = ScalerService(registry, metrics, first_sample_seconds=options.first_sample_seconds)
    health_service = health.aio.HealthServicer()
    server, port = _grpc_server(options, service, health_service)
    is_serving = False
    routes = {
        **probe_routes(lambda: is_serving),
        "/metrics": metrics.exposition,
    }
    endpoint = HttpEndpoint(options.address, options.metrics_port, routes)
    await server.start()
    for name in ("", SERVICE_NAME):
        await health_service.set(name, health_pb2.HealthCheckResponse.SERVING)
    is_serving = True
    # What is loaded by now stays: the collector need not look at it again (50 ms each time).
    gc.collect()
    gc.freeze()
    _log.info(
        "serving",
        address=options.address,
        port=port,
        metrics_port=endpoint.port,
        tls=options.tls_cert is not None,
        mutual_tls=options.client_ca is not None,
        state_file=str(options.state_file or ""),
    )
    async with _chores(parts, options):
        await until.wait()
    is_serving = False
    _log.info("ending", objects=len(registry))
    await health_service.enter_graceful_shutdown()
    service.end_streams()
    await server.stop(options.drain_seconds)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_save(parts), _LAST_STATE_SECONDS)
    registry.close()


def _allowed_servers(options: ScalerOptions, environment: Mapping[str, str]) -> tuple[str, ...]:
    allowed = allowed_servers_of(options.allowed_brokers, environment)
    if "*" in allowed:
        _log.warning("objects may name any server; ALLOWED_BROKERS limits them")
    return allowed


def _grpc_server(
    options: ScalerOptions, service: ScalerService, health_service: Any
) -> tuple[Any, int]:
    streams = ("grpc.max_concurrent_streams", _CALLS_PER_OBJECT * options.max_objects)
    server = grpc.aio.server(options=(*_CHANNEL_OPTIONS, streams))
    add_scaler: Any = wire_grpc.add_ExternalScalerServicer_to_server  # generated, without types
    add_scaler(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(health_service, server)
    if options.reflection:
        names = (SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    credentials = server_credentials(options)
    where = f"{options.address}:{options.port}"
    try:
        if credentials is None:
            return server, int(server.add_insecure_port(where))
        return server, int(server.add_secure_port(where, credentials))
    except RuntimeError as error:
        raise NotReady(f"cannot listen on {where}; set PORT_GRPC or --port") from error


@contextlib.asynccontextmanager
async def _chores(parts: _Parts, options: ScalerOptions) -> AsyncIterator[None]:
    """Tidy up and write the state during the block."""
    tasks = [
        asyncio.create_task(_repeated(_TIDY_SECONDS, parts.registry.drop_idle)),
        asyncio.create_task(_forget_later(parts.registry, options.idle_seconds)),
    ]
    if parts.state is not None:
        tasks.append(asyncio.create_task(_save_now_and_then(parts, options.state_seconds)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeated(seconds: float, work: Any) -> None:
    while True:
        await asyncio.sleep(seconds)
        work()


async def _forget_later(registry: ObjectRegistry, seconds: float) -> None:
    await asyncio.sleep(seconds)
    registry.forget_restored()


async def _save_now_and_then(parts: _Parts, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        await _save(parts)


async def _save(parts: _Parts) -> None:
    if parts.state is None:
        return
    try:
        content = encode_state(await parts.registry.saved())
        await asyncio.to_thread(parts.state.write, content)
    except Exception as error:  # one that failed must not be the last: the task would end
        parts.metrics.state_writes.labels("failed").inc()
        trace = {} if isinstance(error, NotReady) else {"exc_info": error}
        _log.warning("state not written", why=str(error), **trace)
    else:
        parts.metrics.state_writes.labels("good").inc()


def _restore(parts: _Parts) -> None:
    """Take over the last state; one that cannot be used costs one sustain time, not the start."""
    if parts.state is None:
        return
    try:
        content = parts.state.read()
        if content is None:
            _log.info("no state yet: every sustain clock starts now")
            return
        state = decode_state(content)
    except NotReady as error:
        _log.warning("state not used", why=str(error))
        return
    parts.registry.restore(state)
    _log.info("state restored", objects=len(state.objects), windows=len(state.windows))
