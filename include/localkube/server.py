"""Assemble the control plane and serve it on loopback until a signal arrives."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import uvicorn

from localkube.api.api_app import ApiServer
from localkube.api.api_discovery_answers import KUBERNETES
from localkube.controllers.deployments import DeploymentController
from localkube.controllers.events import EventExpiry, EventRecorder
from localkube.controllers.jobs import JobController
from localkube.controllers.services import ServiceForwarder
from localkube.controllers.stateful_sets import StatefulSetController
from localkube.kinds import BUILT_IN, NAMESPACE, Resource
from localkube.kube_objects import LocalkubeError
from localkube.node.container_process import ContainerStarter
from localkube.node.localkube_node import Node
from localkube.node.pod_environment import NodeEnvironment, inheritable, with_own_python
from localkube.node.pod_logs import PodLogs
from localkube.node.pod_metrics import PodMetrics
from localkube.node.pod_worker import NodeParts
from localkube.ports import PortPool
from localkube.processes import GroupReaper
from localkube.state_folder import (
    INFO_FILE,
    Identity,
    announce,
    next_first_version,
    owned,
    write_kubeconfig,
    write_private,
)
from localkube.storage.deletion import Deletion
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Store, Watches
from localkube.warm_start.client import WarmInterpreter

_log = logging.getLogger(__name__)

# Idle clients answer a TLS close only at their next read: do not wait for that.
_CLOSE_SECONDS = 0.3
_REAP_SECONDS = 1.0
_NOT_READY = 3  # exit code


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of one localkube; only the first three are flags."""

    state_dir: Path
    port: int = 0
    stop_limit_seconds: float = 60.0
    kinds: tuple[Resource, ...] = ()
    """Custom kinds, with what a cluster has in admission webhooks, and built-in ones in place."""
    pod_environment: Mapping[str, str] | None = None
    """Every pod inherits it; None: the harmless part of this process's environment."""
    forked: tuple[str, ...] = ()
    """Pods of ``python -m`` with a module that begins with one of these are forked."""
    warm: tuple[str, ...] = ()
    """Modules to import before the first fork; ``name.*`` means all modules of a package."""
    context: str = "localkube"
    """Its name in the kubeconfig."""
    kubernetes: str = KUBERNETES
    """The version that it says it is."""


def main(**more: Any) -> int:
    """Serve by this process's flags and ``more`` settings until SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="localkube", description="A small Kubernetes API on loopback; pods are processes."
    )
    say = parser.add_argument
    say("--state-dir", type=Path, required=True, help="folder of the kubeconfig, logs and so on")
    say("--port", type=int, default=0, help="0 takes that of the last start, or else any free one")
    stop_help = "on SIGTERM a pod gets its own grace period, but never more than this"
    say("--stop-limit-seconds", type=float, default=60.0, help=stop_help)
    given = parser.parse_args()
    if not (0 <= given.port <= 65_535 and given.stop_limit_seconds >= 0):
        parser.error("--port must be 0 to 65535, --stop-limit-seconds at least 0")
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=form)
    try:
        asyncio.run(serve(ServerSettings(**vars(given), **more)))
    except LocalkubeError as error:
        sys.stderr.write(f"{error}\n")
        return _NOT_READY
    return 0


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: the pods have to end before the API."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


class ControlPlane:
    """The running parts of one cluster."""

    def __init__(self, settings: ServerSettings, folder: Path, token: str) -> None:
        """Begin with the namespaces and no workload; needs a running event loop."""
        store = Store(first_version=next_first_version(folder))
        registry, ports, self.reaper = Registry(store), PortPool(), GroupReaper()
        self.event_expiry, deletion = EventExpiry(store), Deletion(registry)
        chosen = settings.pod_environment
        inherited = with_own_python(inheritable(os.environ) if chosen is None else chosen)
        warm_log, forks = folder / "warm-interpreter.log", (settings.forked, settings.warm)
        self.warm = WarmInterpreter(warm_log, inherited, self.reaper, *forks)
        parts = NodeParts(
            registry=registry,
            events=EventRecorder(registry, source="kubelet"),
            environment=NodeEnvironment(inherited, folder / "kubeconfig", store),
            logs=PodLogs(folder / "pods", store),
            ports=ports,
            starter=ContainerStarter(self.reaper, self.warm),
        )
        self.node = Node(parts)
        self.controllers = [
            controller(registry, deletion)
            for controller in (DeploymentController, StatefulSetController, JobController)
        ]
        for name in ("default", "kube-system"):
            registry.create(NAMESPACE, {"metadata": {"name": name}}, "")
        self.services = ServiceForwarder(registry, ports)
        self.api = ApiServer(
            kinds=tuple({kind: kind for kind in (*BUILT_IN, *settings.kinds)}.values()),
            registry=registry,
            deletion=deletion,
            watches=Watches(store),
            logs=parts.logs,
            metrics=PodMetrics(self.node.workers),
            node=self.node,
            token=token,
            kubernetes=settings.kubernetes,
        )

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
            for pid in _children() - self.reaper.watched - {self.reaper.pid}:
                _reap(pid)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _children() -> set[int]:
    lists = [*Path("/proc/self/task").glob("*/children")]
    if not lists:  # a kernel without CONFIG_PROC_CHILDREN
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for path in lists for pid in path.read_text(encoding="ascii").split()}


async def serve(settings: ServerSettings) -> None:
    """Run a cluster until SIGTERM or SIGINT, then stop its pods; a second signal kills them.

    :raises LocalkubeError: the port is taken or another localkube owns the folder.
    """
    folder = settings.state_dir.resolve()
    with owned(folder), contextlib.ExitStack() as stack:
        identity = Identity.kept(folder)
        listener = stack.enter_context(_listening(settings.port, identity.port))
        port = int(listener.getsockname()[1])
        identity = replace(identity, port=port)
        identity.keep(folder)
        plane = ControlPlane(settings, folder, identity.token)
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
                    raise LocalkubeError("the HTTP server ended before it served: see the log")
                await asyncio.sleep(0.01)
            write_kubeconfig(folder / "kubeconfig", identity, settings.context)
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


@contextlib.contextmanager
def _listening(asked: int, last_port: int) -> Iterator[socket.socket]:
    """Listen on the port asked for; where that is 0 on the last one, which may be taken by now."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for port in (asked,) if asked else (last_port, 0):
            try:
                listener.bind(("127.0.0.1", port))
                listener.listen(512)
            except OSError as error:
                if port == asked:
                    raise LocalkubeError(
                        f"cannot listen on 127.0.0.1:{port}: {error.strerror}; free the port, or "
                        "use --port 0 for any free one"
                    ) from error
                _log.warning("port %d was taken: clients need the new kubeconfig", port)
            else:
                break
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
