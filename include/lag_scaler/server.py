"""The program's life: start, serve, write the state now and then, finish open calls, end.

At SIGTERM: health says NOT_SERVING, streams end cleanly, open calls get ``drain_seconds``, the
state is written. Nothing waits longer than that for a broker or a client.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from lag_scaler.metrics import ScalerMetrics
from lag_scaler.options import ScalerOptions
from lag_scaler.registry import ObjectRegistry
from lag_scaler.service import ScalerService
from lag_scaler.state import read_state, write_state
from lag_scaler.wire import externalscaler_pb2 as wire
from lag_scaler.wire import externalscaler_pb2_grpc as wire_grpc
from pod_program.errors import NotReady
from pod_program.http_endpoint import HttpEndpoint, probe_routes
from pod_program.steady_clock import SteadyClock

SERVICE_NAME: str = wire.DESCRIPTOR.services_by_name["ExternalScaler"].full_name

_TIDY_SECONDS = 10.0

_LAST_STATE_SECONDS = 2.0

_CHANNEL_OPTIONS = (
    # Only one process may have the port: two would share it, each with windows of its own.
    ("grpc.so_reuseport", 0),
    # An object's metadata is some 500 bytes; certificates of its login are a few KB.
    ("grpc.max_receive_message_length", 64 * 1024),
    # A peer that is gone without a word is noticed after 80 s at most, whatever streams send.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

# KEDA has all its calls on one connection: two streams and two calls for each object.
_CALLS_PER_OBJECT = 4

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


async def serve(
    options: ScalerOptions, environment: Mapping[str, str], until: asyncio.Event
) -> None:
    """Serve until ``until`` is set.

    :raises NotReady: a port cannot be had, or a certificate cannot be read.
    """
    metrics, state = ScalerMetrics(), options.state_file
    registry = ObjectRegistry(options, environment, metrics, now_ns=SteadyClock().now_ns)
    if state is not None:
        restore(registry, state)
    service = ScalerService(registry, metrics, first_sample_seconds=options.first_sample_seconds)
    health_service = health.aio.HealthServicer()
    server, port = _grpc_server(options, service, health_service)
    is_serving = False
    routes = {**probe_routes(lambda: is_serving), "/metrics": metrics.exposition}
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
        state_file=str(state or ""),
    )
    chores = [
        asyncio.create_task(_every(_TIDY_SECONDS, registry.drop_idle)),
        asyncio.create_task(_every(options.idle_seconds, registry.forget_restored)),
    ]
    if state is not None:
        saves = _every(options.state_seconds, lambda: save(registry, metrics, state))
        chores.append(asyncio.create_task(saves))
    await until.wait()
    for chore in chores:
        chore.cancel()
    await asyncio.gather(*chores, return_exceptions=True)
    is_serving = False
    _log.info("ending", objects=len(registry))
    await health_service.enter_graceful_shutdown()
    service.end_streams()
    await server.stop(options.drain_seconds)
    if state is not None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(save(registry, metrics, state), _LAST_STATE_SECONDS)
    registry.close()


async def _every(seconds: float, work: Callable[[], Awaitable[None] | None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        result = work()
        if result is not None:
            await result


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
    where = f"{options.address}:{options.port}"
    credentials = _credentials(options)
    try:
        if credentials is None:
            return server, int(server.add_insecure_port(where))
        return server, int(server.add_secure_port(where, credentials))
    except RuntimeError as error:
        raise NotReady(f"cannot listen on {where}; set PORT_GRPC or --port") from error


def _credentials(options: ScalerOptions) -> Any | None:
    """Return TLS from files, with mutual TLS where a client CA is given; None for plaintext.

    The key never passes through a flag or a variable. New files (a renewed certificate) are used
    from the next handshake on.

    :raises NotReady: a file cannot be read.
    """
    if options.tls_cert is None or options.tls_key is None:
        return None
    cert, key, client_ca = options.tls_cert, options.tls_key, options.client_ca
    files = [path for path in (cert, key, client_ca) if path is not None]
    seen: list[int] = []

    def read() -> Any:
        seen[:] = [path.stat().st_mtime_ns for path in files]
        authority = None if client_ca is None else client_ca.read_bytes()
        pair = (key.read_bytes(), cert.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=authority)

    def renewed() -> Any | None:
        """Return what changed since the last reading; None lets the server keep what it has."""
        try:
            return None if [path.stat().st_mtime_ns for path in files] == seen else read()
        except OSError:  # between two files of a renewal
            return None

    try:
        first = read()
    except OSError as error:
        raise NotReady(f"cannot read {error.filename}: {error.strerror}") from error
    return grpc.dynamic_ssl_server_credentials(
        first, renewed, require_client_authentication=client_ca is not None
    )


async def save(registry: ObjectRegistry, metrics: ScalerMetrics, path: Path) -> None:
    """Write the state; a failure is counted and is not the last attempt."""
    try:
        await asyncio.to_thread(write_state, path, await registry.saved())
    except Exception as error:  # else the task would end
        metrics.state_writes.labels("failed").inc()
        trace = {} if isinstance(error, NotReady) else {"exc_info": error}
        _log.warning("state not written", why=str(error), **trace)
    else:
        metrics.state_writes.labels("good").inc()


def restore(registry: ObjectRegistry, path: Path) -> None:
    """Take over the last state; one that cannot be used costs one sustain time, not the start."""
    try:
        state = read_state(path)
    except NotReady as error:
        _log.warning("state not used", why=str(error))
        return
    if state is None:
        _log.info("no state yet: every sustain clock starts now")
        return
    registry.restore(state)
    _log.info("state restored", objects=len(state.objects), windows=len(state.windows))
