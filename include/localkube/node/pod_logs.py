"""The logs of pods: one file per container, and what a client reads of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from starlette.responses import Response, StreamingResponse

from localkube.kinds import POD
from localkube.kube_objects import KubeObject, bad_request
from localkube.storage.object_store import Store

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

    def pod_folder(self, pod: KubeObject) -> Path:
        """Return the folder of a pod; create it if it is missing."""
        folder = self._folder / f"{pod.namespace}_{pod.name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def file_of(self, pod: KubeObject, container: str) -> Path:
        """Return the log file of a container and record where this pod's output begins.

        A pod may have the name of an earlier one: its output is appended to the same file.
        """
        path = self.pod_folder(pod) / f"{container}.log"
        size = path.stat().st_size if path.exists() else 0
        self._starts.setdefault((pod.uid, container), size)
        return path

    def answer(self, pod: KubeObject, query: Mapping[str, str]) -> Response:
        """Answer a request for a log: ``container``, ``tailLines``, ``limitBytes``, ``follow``."""
        names = [container["name"] for container in pod.spec["containers"]]
        names += [container["name"] for container in pod.spec.get("initContainers") or ()]
        container = query.get("container") or names[0]
        if container not in names:
            raise bad_request(f"container {container} is not valid for pod {pod.name}")
        path = self.pod_folder(pod) / f"{container}.log"
        start = self._starts.get((pod.uid, container), 0)
        if "tailLines" in query:
            start = _start_of_tail(path, start, whole_number(query, "tailLines"))
        if query.get("follow") in _TRUE:
            return StreamingResponse(self._follow(pod, path, start), media_type="text/plain")
        limit = whole_number(query, "limitBytes") if "limitBytes" in query else -1
        return Response(_read(path, start, limit), media_type="text/plain")

    async def _follow(self, pod: KubeObject, path: Path, start: int) -> AsyncIterator[bytes]:
        position = start
        while True:
            # Looked at before reading: no output is cut off.
            now = self._store.find(POD, *pod.key)
            has_ended = now is None or now.uid != pod.uid or now.has_ended
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
    """Return where the last ``lines`` lines after ``start`` begin."""
    if not path.exists():
        return start
    with path.open("rb") as file:
        file.seek(start)
        kept = deque(file, maxlen=lines)
        return file.tell() - sum(map(len, kept))
