"""Serve the control plane on loopback until a signal arrives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from pydantic import Field

from lagbench.errors import NotReady
from lagbench.localkube import state_folder
from lagbench.localkube.certificate import ServerCertificate
from lagbench.localkube.control_plane import ControlPlane, build
from lagbench.localkube.identity import keep_identity, kept_identity
from lagbench.localkube.kubeconfig import write_kubeconfig, write_private
from lagbench.localkube.orphans import keep_reaping
from lagbench.programs.flags import Settings

_log = logging.getLogger(__name__)
# Idle clients answer a TLS close only at their next read: do not wait for that.
_CLOSE_SECONDS = 0.3


class ServerSettings(Settings):
    """The small Kubernetes API of the embedded bench, on loopback."""

    state_dir: Path = Field(description="folder for the kubeconfig, the pods' logs and so on")
    port: int = Field(
        0,
        ge=0,
        le=65_535,
        description="loopback port; 0 takes that of the last start, or else any free one",
    )
    stop_limit_seconds: float = Field(
        60.0,
        ge=0,
        description="on SIGTERM a pod gets its own grace period, but never more than this",
    )


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the pods have to end before the API."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


async def serve(settings: ServerSettings) -> None:
    """Run a cluster until SIGTERM or SIGINT, then stop its pods; a second signal kills them.

    :raises NotReady: the port is taken or another localkube owns the folder.
    """
    folder = settings.state_dir.resolve()
    with state_folder.owned(folder), contextlib.ExitStack() as stack:
        identity = kept_identity(folder)
        listener = stack.enter_context(_listening_again(settings.port, last_port=identity.port))
        port = int(listener.getsockname()[1])
        identity = identity.model_copy(update={"port": port})
        keep_identity(folder, identity)
        plane = build(
            folder, token=identity.token, first_version=state_folder.next_first_version(folder)
        )
        server = _uvicorn(plane, identity.server_certificate)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        sampling = asyncio.create_task(plane.api.metrics.keep_sampling())
        reaping = asyncio.create_task(keep_reaping(plane.reaper))
        expiring = asyncio.create_task(plane.event_expiry.keep_expiring())
        try:
            await _until_started(server, serving)
            write_kubeconfig(
                folder / "kubeconfig",
                server=f"https://127.0.0.1:{port}",
                token=identity.token,
                authority=identity.authority.encode(),
            )
            plane.warm.start()
            state_folder.announce(folder, port=port)
            _log.info("localkube serves on 127.0.0.1:%d, state in %s", port, folder)
            await _until_signalled(plane, serving, settings.stop_limit_seconds)
        finally:
            sampling.cancel()
            reaping.cancel()
            expiring.cancel()
            plane.api.watches.end_all()
            await _end(server, serving)
            plane.warm.close()
            plane.reaper.close()
            state_folder.withdraw(folder)
    _log.info("localkube has ended")


def _listening_again(
    port: int, *, last_port: int
) -> contextlib.AbstractContextManager[socket.socket]:
    """Listen on ``port``; where that is 0 on the last one, which may be taken by now."""
    if port == 0 and last_port and not _is_free(last_port):
        _log.warning(
            "port %d of the last start is taken: clients need the new kubeconfig", last_port
        )
        return _listening(0)
    return _listening(port or last_port)


def _is_free(port: int) -> bool:
    try:
        with _listening(port):
            return True
    except NotReady:
        return False


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen(512)
        except OSError as error:
            raise NotReady(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror}; free the port, or use "
                "--port 0 for any free one"
            ) from error
        yield listener


def _uvicorn(plane: ControlPlane, certificate: ServerCertificate) -> _Server:
    with TemporaryDirectory() as folder:
        certificate_file, key_file = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate_file.write_bytes(certificate.certificate)
        write_private(key_file, certificate.private_key)
        config = uvicorn.Config(
            plane.api.application(),
            loop="asyncio",  # child processes are watched through asyncio's own selector
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=60,
            ws="none",
            ssl_certfile=certificate_file,
            ssl_keyfile=key_file,
        )
        config.load()  # reads the files now, so they can be deleted
    return _Server(config)


async def _until_started(server: _Server, serving: asyncio.Task[None]) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise NotReady("the HTTP server ended before it served; see the log above")
        await asyncio.sleep(0.01)


async def _end(server: _Server, serving: asyncio.Task[None]) -> None:
    """Stop the HTTP server; wait a moment for responses in progress."""
    server.should_exit = True
    await asyncio.wait({serving}, timeout=_CLOSE_SECONDS)
    server.force_exit = True
    await asyncio.gather(serving, return_exceptions=True)


async def _until_signalled(
    plane: ControlPlane, serving: asyncio.Task[None], stop_limit_seconds: float
) -> None:
    """Wait for a signal and stop the pods; return early if the HTTP server fails."""
    loop = asyncio.get_running_loop()
    asked, asked_again = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (asked_again if asked.is_set() else asked).set()

    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, on_signal)
    stopping = asyncio.create_task(asked.wait())
    await asyncio.wait({stopping, serving}, return_when=asyncio.FIRST_COMPLETED)
    _log.info("stopping %d pods", len(plane.node.workers()))
    ending = asyncio.create_task(plane.stop_pods(stop_limit_seconds))
    hurry = asyncio.create_task(asked_again.wait())
    await asyncio.wait({ending, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        plane.node.kill_all()
    await ending
    hurry.cancel()
