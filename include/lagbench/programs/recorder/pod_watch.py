"""Follow the consumer pods: a record whenever something about one changed."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lagbench.core.telemetry import PodSeen, ReadGap, Record
from lagbench.programs.recorder.pod_life import pod_seen, what_matters

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

log = logging.getLogger(__name__)

_LIST_SECONDS = 5.0
_WATCH_SECONDS = 30
_RETRY_SECONDS = 1.0

Event = tuple[str, Mapping[str, Any]]
"""ADDED, MODIFIED or DELETED with the pod; LISTED with a whole list."""


class PodApi:
    """Lists and watches pods by label, as plain JSON (the typed client costs ten times as much)."""

    def __init__(self, open_client: Callable[[], ApiClient], namespace: str, selector: str) -> None:
        """Watch the pods of ``namespace`` that ``selector`` names."""
        self._open_client = open_client
        self._client: ApiClient | None = None
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector

    def events(self) -> Iterator[Event]:
        """Yield one list, then changes, until the server ends the watch."""
        listed = json.loads(self._get({}, _LIST_SECONDS).data)
        yield "LISTED", listed
        version = listed["metadata"].get("resourceVersion", "")
        watch = {"watch": "true", "resourceVersion": version, "timeoutSeconds": _WATCH_SECONDS}
        answer = self._get(watch, _WATCH_SECONDS + _LIST_SECONDS)
        try:
            for line in _lines(answer.stream(amt=None, decode_content=False)):
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            answer.release_conn()

    def _get(self, query: Mapping[str, object], timeout_seconds: float) -> Any:
        self._client = self._client or self._open_client()
        asked = {"labelSelector": self._selector, **query}
        return self._client.call_api(
            self._path,
            "GET",
            query_params=list(asked.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
            _preload_content=False,
            _return_http_data_only=True,
            _request_timeout=timeout_seconds,
        )


class PodWatch(threading.Thread):
    """Sends a PodSeen for every change until stopped."""

    def __init__(
        self, events: Callable[[], Iterator[Event]], send: Callable[[Record], None], source: str
    ) -> None:
        """Take one list and its changes from each call of ``events``."""
        super().__init__(name="watch-pods", daemon=True)
        self._events = events
        self._send = send
        self._source = source
        self._pods: dict[str, Mapping[str, Any]] = {}  # by uid
        self._told: dict[str, tuple[object, ...]] = {}
        self._stopping = threading.Event()
        self.has_read = False

    def run(self) -> None:
        """Follow; a watch that breaks is a gap, then a new list says what was missed."""
        while not self._stopping.is_set():
            try:
                for kind, found in self._events():
                    self.take(kind, found, at=time.time_ns())
                    self.has_read = True
                    if self._stopping.is_set():
                        return
            except Exception as error:
                log.warning("pods were not seen: %s", error)
                gap = ReadGap(
                    at=time.time_ns(), source=self._source, what="pods", reason=str(error)
                )
                self._send(gap)
                self.has_read = True
                self._stopping.wait(_RETRY_SECONDS)

    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""
        if kind == "LISTED":
            pods = {pod["metadata"]["uid"]: pod for pod in found.get("items") or []}
            for uid in self._pods.keys() - pods.keys():
                self._tell(self._pods.pop(uid), at=at, gone_at=at)
            for pod in pods.values():
                self._note(pod, at=at)
        elif kind in {"ADDED", "MODIFIED"}:
            self._note(found, at=at)
        elif kind == "DELETED":
            self._pods.pop(found["metadata"]["uid"], None)
            self._tell(found, at=at, gone_at=at)
        elif kind == "ERROR":  # 410: the version is too old; the next list says what is
            log.info("watch ended: %s", found.get("message"))

    def stop(self) -> None:
        """End at the next event."""
        self._stopping.set()

    def _note(self, pod: Mapping[str, Any], *, at: int) -> None:
        self._pods[pod["metadata"]["uid"]] = pod
        self._tell(pod, at=at, gone_at=None)

    def _tell(self, pod: Mapping[str, Any], *, at: int, gone_at: int | None) -> None:
        seen: PodSeen = pod_seen(pod, at=at, source=self._source, gone_at=gone_at)
        uid, matters = pod["metadata"]["uid"], what_matters(seen)
        if self._told.get(uid) == matters:
            return
        if gone_at is None:
            self._told[uid] = matters
        else:
            self._told.pop(uid, None)
        self._send(seen)


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Split a stream at line ends."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())
