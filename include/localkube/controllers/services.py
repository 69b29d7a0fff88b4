"""Forward one loopback port per service port to the ready pods in turn.

The annotation ``lagbench.io/port-<port name or number>`` of a service contains the loopback port.
Pods started later also get it as ``<NAME>_SERVICE_HOST`` and ``<NAME>_SERVICE_PORT``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from itertools import count

from localkube.kinds import POD, SERVICE
from localkube.kube_objects import KubeObject, port_annotation
from localkube.ports import PortPool
from localkube.storage.object_registry import Registry
from localkube.storage.object_store import Change

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 65_536


class ServiceForwarder:
    """Listens for every Service that selects pods."""

    def __init__(self, registry: Registry, ports: PortPool) -> None:
        """Follow the registry's store; take ports from ``ports``."""
        self._registry, self._ports = registry, ports
        self._listeners: dict[str, list[tuple[int, asyncio.Server]]] = {}
        self._turn = count()
        self._tasks: set[asyncio.Task[None]] = set()
        registry.store.subscribe(self._on_change)

    def close(self) -> None:
        """Stop listening for all services."""
        for uid in list(self._listeners):
            self._forget(uid)

    def _on_change(self, change: Change) -> None:
        if change.resource != SERVICE:
            return
        uid = change.obj.uid
        if change.kind == "DELETED":
            self._forget(uid)
        elif uid not in self._listeners and change.obj.spec.get("selector"):
            self._listeners[uid] = []
            task = asyncio.create_task(self._listen(change.obj))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _forget(self, uid: str) -> None:
        for number, server in self._listeners.pop(uid, []):
            server.close()
            self._ports.give_back(number)

    async def _listen(self, service: KubeObject) -> None:
        """Open a port for each TCP port of a service and write it into the annotations."""
        uid, place = service.uid, service.key
        for port in service.spec.get("ports") or ():
            if port["protocol"] != "TCP":
                _log.warning("service %s: %s is not forwarded, only TCP", place, port["protocol"])
                continue
            number, key = self._ports.take(), port_annotation(port, "port")
            connect = functools.partial(self._forward, place, key)
            server = await asyncio.start_server(connect, "127.0.0.1", number)
            if uid not in self._listeners:  # deleted meanwhile
                server.close()
                self._ports.give_back(number)
                return
            self._listeners[uid].append((number, server))
            edit = functools.partial(KubeObject.annotate, name=key, value=number)
            self._registry.change(SERVICE, *place, edit)

    async def _forward(
        self,
        place: tuple[str, str],
        key: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Forward one connection to a pod; close it if no pod is ready."""
        target = self._next_target(place, key)
        try:
            if target is None:
                return
            pod_reader, pod_writer = await asyncio.open_connection("127.0.0.1", target)
            try:
                await asyncio.gather(_pump(reader, pod_writer), _pump(pod_reader, writer))
            finally:
                pod_writer.close()
        except OSError as error:
            _log.info("service %s: connection to port %s: %s", place, target, error)
        finally:
            writer.close()

    def _next_target(self, place: tuple[str, str], key: str) -> int | None:
        """Return the port of the next pod in turn."""
        service = self._registry.store.find(SERVICE, *place)
        if service is None:
            return None
        selector = service.spec.get("selector") or {}
        ports = [p for p in service.spec["ports"] if port_annotation(p, "port") == key]
        targets = [
            number
            for pod in self._registry.store.select(POD, place[0])
            if selector.items() <= pod.labels.items() and pod.is_ready and not pod.is_terminating
            for port in ports
            if (number := _pod_port(pod, port["targetPort"]))
        ]
        return targets[next(self._turn) % len(targets)] if targets else None


def _pod_port(pod: KubeObject, target: object) -> int | None:
    """Return the loopback port behind a service's targetPort, by name or by declared number."""
    for container in pod.spec["containers"]:
        for port in container.get("ports") or ():
            if target in (port.get("name"), port["containerPort"]):
                found = pod.annotations.get(port_annotation(port, "containerPort"))
                return None if found is None else int(found)
    return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the input ends, then send EOF."""
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
