"""One run of a container: a process group that cannot outlive localkube."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from starlette.responses import Response, StreamingResponse

from lagbench.adapters.process.processes import GroupReaper, signal_group, start_tied
from lagbench.localkube.kube_objects import JsonObject, bad_request, name_of, namespace_of, uid_of
from lagbench.localkube.node.pod_environment import LaunchPlan
from lagbench.localkube.storage.object_store import Store
from lagbench.localkube.storage.resources import POD
from lagbench.localkube.warm_start.client import WarmInterpreter


class ContainerProcess:
    """A started child; ``exited`` becomes its exit code (128 + signal number when killed)."""

    def __init__(
        self, pid: int, reaper: GroupReaper, popen: subprocess.Popen[bytes] | None = None
    ) -> None:
        """Watch the child ``pid``; ``popen`` is its handle, if there is one.

        :raises OSError: it cannot be watched; it is killed then, for no pod would own it.
        """
        self._reaper, self._popen = reaper, popen
        self.started_at_ns = time.time_ns()
        self.ended_at_ns = 0
        self.pid = pid
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        try:
            reaper.watch(pid)
            # The descriptor is readable when the process has ended: no polling, no thread.
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            self.kill()
            self._wait()
            with contextlib.suppress(OSError):
                reaper.forget(pid)
            raise
        self._loop.add_reader(self._pidfd, self._on_exit)

    @property
    def is_forked(self) -> bool:
        """True: it is a fork of the warm interpreter."""
        return self._popen is None

    def terminate(self) -> None:
        """Send SIGTERM to the main process only, as kubelet does, not to its children.

        A stopped process would not see it: its group continues first.
        """
        self.send_signal(signal.SIGCONT)
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the whole process group."""
        if self.exited.done():
            return
        signal_group(self.pid, signal.SIGKILL)
        # Before its setsid the process does not have its own group yet.
        self._send(signal.SIGKILL)

    def send_signal(self, signum: signal.Signals) -> None:
        """Send ``signum`` to the whole process group."""
        if not self.exited.done():
            signal_group(self.pid, signum)

    def _send(self, signum: signal.Signals) -> None:
        if not self.ended_at_ns:  # not reaped yet: the pid is still its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.ended_at_ns = time.time_ns()
        # Processes that the main process left behind end with the container. The main process is
        # not reaped yet, so it still holds its pid and the signal cannot hit another group.
        signal_group(self.pid, signal.SIGKILL)
        code = self._wait()
        if not self.exited.done():
            self.exited.set_result(code if code >= 0 else 128 - code)
        self._reaper.forget(self.pid)

    def _wait(self) -> int:
        if self._popen is not None:
            return self._popen.wait()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class ContainerStarter:
    """Starts containers: as forks of the warm interpreter if that is equivalent, else by exec."""

    def __init__(self, reaper: GroupReaper, warm: WarmInterpreter) -> None:
        """Fork ``warm`` as long as it is warm."""
        self._reaper, self._warm = reaper, warm

    async def start(
        self, plan: LaunchPlan, log_file: Path, stopping: asyncio.Event
    ) -> ContainerProcess | None:
        """Return the started process; None when ``stopping`` was set before it was started.

        :raises OSError: it cannot be started.
        """
        with log_file.open("ab") as log:
            forked = await self._warm.fork(plan, log.fileno())
            if stopping.is_set():
                if forked is not None:
                    forked.abandon()
                return None
            if forked is not None:
                try:
                    process = ContainerProcess(forked.pid, self._reaper)
                except OSError:
                    forked.abandon()
                    raise
                forked.release()
                return process
            # Start on the event loop's thread: the process ends with the thread that started it.
            popen = start_tied(
                plan.command,
                log=log,
                env=plan.environment,
                cwd=plan.folder,
                niceness=plan.niceness,
            )
        return ContainerProcess(popen.pid, self._reaper, popen)


# Poll interval of a followed log. Without inotify there is no file event to wait for.
_FOLLOW_SECONDS = 0.2

_CHUNK_BYTES = 65_536

_TRUE = frozenset({"true", "True", "1"})


class PodLogs:
    """One file per container, kept after the pod is deleted."""

    def __init__(self, folder: Path, store: Store) -> None:
        """Keep the files below ``folder``; ``store`` shows whether a followed pod still exists."""
        self._folder, self._store = folder, store
        self._starts: dict[tuple[str, str], int] = {}

    def pod_folder(self, pod: JsonObject) -> Path:
        """Return the folder of a pod; create it if it is missing."""
        folder = self._folder / f"{namespace_of(pod)}_{name_of(pod)}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def file_of(self, pod: JsonObject, container: str) -> Path:
        """Return the log file of a container and record where this pod's output begins.

        A pod may have the name of an earlier one: its output is appended to the same file.
        """
        path = self.pod_folder(pod) / f"{container}.log"
        size = path.stat().st_size if path.exists() else 0
        self._starts.setdefault((uid_of(pod), container), size)
        return path

    def answer(self, pod: JsonObject, query: Mapping[str, str]) -> Response:
        """Answer a request for a log: ``container``, ``tailLines``, ``limitBytes``, ``follow``."""
        names = [container["name"] for container in pod["spec"]["containers"]]
        names += [container["name"] for container in pod["spec"].get("initContainers") or ()]
        container = query.get("container") or names[0]
        if container not in names:
            raise bad_request(f"container {container} is not valid for pod {name_of(pod)}")
        path = self.pod_folder(pod) / f"{container}.log"
        start = self._starts.get((uid_of(pod), container), 0)
        if "tailLines" in query:
            start = _start_of_tail(path, start, whole_number(query, "tailLines"))
        if query.get("follow") in _TRUE:
            return StreamingResponse(self._follow(pod, path, start), media_type="text/plain")
        limit = whole_number(query, "limitBytes") if "limitBytes" in query else -1
        return Response(_read(path, start, limit), media_type="text/plain")

    async def _follow(self, pod: JsonObject, path: Path, start: int) -> AsyncIterator[bytes]:
        position = start
        while True:
            # Looked at before reading: no output is cut off.
            now = self._store.find(POD, namespace_of(pod), name_of(pod))
            has_ended = (
                now is None
                or uid_of(now) != uid_of(pod)
                or now["status"].get("phase") in ("Succeeded", "Failed")
            )
            while chunk := _read(path, position, _CHUNK_BYTES):
                position += len(chunk)
                yield chunk
            if has_ended:
                return
            await asyncio.sleep(_FOLLOW_SECONDS)


def whole_number(query: Mapping[str, str], name: str) -> int:
    """Return a parameter of a query that must be a whole number of at least 0."""
    if not query[name].isdigit():
        raise bad_request(f"invalid {name} {query[name]!r}: must be a whole number")
    return int(query[name])


def _read(path: Path, start: int, limit: int) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as file:
        file.seek(start)
        return file.read(limit)


def _start_of_tail(path: Path, start: int, lines: int) -> int:
    """Return where the last ``lines`` lines after ``start`` begin, reading from the end."""
    if not path.exists():
        return start
    with path.open("rb") as file:
        end = position = file.seek(0, 2)
        tail = b""
        while position > start and tail.rstrip(b"\n").count(b"\n") < lines:
            step = min(_CHUNK_BYTES, position - start)
            position -= step
            file.seek(position)
            tail = file.read(step) + tail
    kept = tail.splitlines(keepends=True)[-lines:] if lines > 0 else []
    return end - sum(len(line) for line in kept)
