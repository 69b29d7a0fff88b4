"""Assemble the control plane and serve it on loopback until a signal arrives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import uvicorn
from pydantic import Field

from lagbench.adapters.process.processes import GroupReaper
from lagbench.errors import NotReady
from lagbench.localkube.api.api_app import ApiServer
from lagbench.localkube.api.api_writes import Writes
from lagbench.localkube.controllers.deployments import DeploymentController
from lagbench.localkube.controllers.events import EventExpiry, EventRecorder
from lagbench.localkube.controllers.jobs import JobController
from lagbench.localkube.controllers.services import PortPool, ServiceForwarder
from lagbench.localkube.controllers.stateful_sets import StatefulSetController
from lagbench.localkube.node.container_process import ContainerStarter, PodLogs
from lagbench.localkube.node.localkube_node import Node
from lagbench.localkube.node.pod_environment import NodeEnvironment, inheritable
from lagbench.localkube.node.pod_metrics import PodMetrics
from lagbench.localkube.node.pod_worker import NodeParts
from lagbench.localkube.state_folder import (
    INFO_FILE,
    Identity,
    announce,
    next_first_version,
    owned,
    write_kubeconfig,
    write_private,
)
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.object_registry import Registry
from lagbench.localkube.storage.object_store import Store, Watches
from lagbench.localkube.storage.resources import NAMESPACE
from lagbench.localkube.warm_start.client import WarmInterpreter
from pod_program.flags import Settings

_log = logging.getLogger(__name__)

# Idle clients answer a TLS close only at their next read: do not wait for that.
_CLOSE_SECONDS = 0.3

_REAP_SECONDS = 1.0


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


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The running parts of one cluster."""

    api: ApiServer
    node: Node
    controllers: tuple[DeploymentController | StatefulSetController | JobController, ...]
    services: ServiceForwarder
    event_expiry: EventExpiry
    reaper: GroupReaper
    warm: WarmInterpreter

    @classmethod
    def build(cls, state_dir: Path, *, token: str, first_version: int) -> ControlPlane:
        """Return a cluster with its namespaces and no workload; needs a running event loop."""
        store = Store(first_version=first_version)
        registry = Registry(store)
        event_expiry, deletion = EventExpiry(store), Deletion(registry)
        logs, ports, reaper = PodLogs(state_dir / "pods", store), PortPool(), GroupReaper()
        inherited = inheritable(os.environ)
        warm = WarmInterpreter(state_dir / "warm-interpreter.log", inherited, reaper)
        node = Node(
            NodeParts(
                registry=registry,
                events=EventRecorder(registry, source="kubelet"),
                environment=NodeEnvironment(inherited, state_dir / "kubeconfig", store),
                logs=logs,
                ports=ports,
                starter=ContainerStarter(reaper, warm),
            )
        )
        controllers = tuple(
            kind(registry, deletion, EventRecorder(registry, source=f"{name}-controller"))
            for name, kind in (
                ("deployment", DeploymentController),
                ("statefulset", StatefulSetController),
                ("job", JobController),
            )
        )
        for name in ("default", "kube-system"):
            registry.create(NAMESPACE, {"metadata": {"name": name}}, "")
        api = ApiServer(
            registry=registry,
            deletion=deletion,
            watches=Watches(store),
            writes=Writes(registry),
            logs=logs,
            metrics=PodMetrics(node.workers),
            node=node,
            token=token,
        )
        services = ServiceForwarder(registry, ports)
        return cls(api, node, controllers, services, event_expiry, reaper, warm)

    async def stop_pods(self, limit_seconds: float) -> None:
        """Stop all pods gracefully; no controller replaces them."""
        for controller in self.controllers:
            controller.close()
        await self.node.stop_all(limit_seconds)
        self.services.close()

    async def keep_reaping(self) -> None:
        """Reap the ended orphans of pods, which localkube adopts.

        A process that localkube started is on the list of ``reaper`` until its starter has waited
        for it.
        """
        while True:
            await asyncio.sleep(_REAP_SECONDS)
            _reap(_children() - self.reaper.watched - {self.reaper.pid})


def _reap(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    lists = [*Path("/proc/self/task").glob("*/children")]
    if not lists:  # a kernel without CONFIG_PROC_CHILDREN
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for path in lists for pid in path.read_text(encoding="ascii").split()}


async def serve(settings: ServerSettings) -> None:
    """Run a cluster until SIGTERM or SIGINT, then stop its pods; a second signal kills them.

    :raises NotReady: the port is taken or another localkube owns the folder.
    """
    folder = settings.state_dir.resolve()
    with owned(folder), contextlib.ExitStack() as stack:
        identity = Identity.kept(folder)
        listener = stack.enter_context(_listening_again(settings.port, last_port=identity.port))
        port = int(listener.getsockname()[1])
        identity = identity.model_copy(update={"port": port})
        identity.keep(folder)
        version = next_first_version(folder)
        plane = ControlPlane.build(folder, token=identity.token, first_version=version)
        server = _uvicorn(plane, identity)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        chores = [
            asyncio.create_task(work)
            for work in (
                plane.api.metrics.keep_sampling(),
                plane.keep_reaping(),
                plane.event_expiry.keep_expiring(),
            )
        ]
        try:
            while not server.started:
                if serving.done():
                    serving.result()
                    raise NotReady("the HTTP server ended before it served; see the log above")
                await asyncio.sleep(0.01)
            write_kubeconfig(folder / "kubeconfig", identity)
            plane.warm.start()
            announce(folder, port=port)
            _log.info("localkube serves on 127.0.0.1:%d, state in %s", port, folder)
            await _until_signalled(plane, serving, settings.stop_limit_seconds)
        finally:
            for chore in chores:
                chore.cancel()
            plane.api.watches.end_all()
            server.should_exit = True
            await asyncio.wait({serving}, timeout=_CLOSE_SECONDS)  # for responses in progress
            server.force_exit = True
            await asyncio.gather(serving, return_exceptions=True)
            plane.warm.close()
            plane.reaper.close()
            (folder / INFO_FILE).unlink(missing_ok=True)
    _log.info("localkube has ended")


def _listening_again(
    port: int, *, last_port: int
) -> contextlib.AbstractContextManager[socket.socket]:
    """Listen on ``port``; where that is 0 on the last one, which may be taken by now."""
    if port == 0 and last_port:
        try:
            with _listening(last_port):
                port = last_port
        except NotReady:
            _log.warning(
                "port %d of the last start is taken: clients need the new kubeconfig", last_port
            )
    return _listening(port)


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


def _uvicorn(plane: ControlPlane, identity: Identity) -> _Server:
    with TemporaryDirectory() as folder:
        certificate_file, key_file = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate_file.write_text(identity.certificate)
        write_private(key_file, identity.private_key.encode())
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
