"""Follow the objects of one kind: a list, then every change, through breaks of the watch."""

from __future__ import annotations

import json
import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.kube_errors import reason_of
from lagbench.core.telemetry import ReadGap, Record, What

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

log = logging.getLogger(__name__)

_LIST_SECONDS = 5.0
_WATCH_SECONDS = 30
_RETRY_SECONDS = 1.0
_GAP_EVERY_NS = 1_000_000_000

Event = tuple[str, Mapping[str, Any]]
"""ADDED, MODIFIED or DELETED with the object; LISTED with a whole list."""


class ObjectApi:
    """Lists and watches objects as plain JSON (the typed client costs ten times as much)."""

    def __init__(
        self, open_client: Callable[[], ApiClient], path: str, selection: Mapping[str, str]
    ) -> None:
        """Watch what lies under ``path`` as far as ``selection`` (query parameters) goes."""
        self._open_client = open_client
        self._client: ApiClient | None = None
        self._path = path
        self._selection = selection

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
        asked = {**self._selection, **query}
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


class ObjectWatch(threading.Thread):
    """Takes one list and its changes after the other until stopped.

    A server ends a watch in order after half a minute. One that breaks instead may have been dead
    since its last event: a partition shows no sooner than the read times out, 35 s later.
    """

    def __init__(
        self,
        what: What,
        events: Callable[[], Iterator[Event]],
        send: Callable[[Record], None],
        source: str,
        *,
        is_sampled: bool = False,
    ) -> None:
        """Take one list and its changes from each call of ``events``.

        ``is_sampled``: a sampler reads the same and tells its own gaps, so that what this watch did
        not show was seen all the same, if later and without who did it.
        """
        super().__init__(name=f"watch-{what}", daemon=True)
        self._is_sampled = is_sampled
        self._what: What = what
        self._events = events
        self._send = send
        self._source = source
        self._stopping = threading.Event()
        self.has_read = False

    def run(self) -> None:
        """Follow; a watch that breaks is a gap, then a new list says what was missed."""
        while not self._stopping.is_set():
            seen_at = time.time_ns()
            try:
                for kind, found in self._events():
                    self.take(kind, found, at=time.time_ns())
                    self.has_read = True
                    if self._stopping.is_set():
                        return
                    seen_at = time.time_ns()
            except Exception as error:
                log.warning("%s were not seen: %s", self._what, error)
                self._send_gaps(seen_at, reason_of(error))
                self.has_read = True
                self._stopping.wait(_RETRY_SECONDS)

    def _send_gaps(self, seen_at: int, reason: str) -> None:
        """Send a gap now, and one a second back to ``seen_at``, the last sign of life."""
        now = time.time_ns()
        unseen = () if self._is_sampled else range(seen_at, now, _GAP_EVERY_NS)
        for at in (*unseen, now):
            self._send(ReadGap(at=at, source=self._source, what=self._what, reason=reason))

    @abstractmethod
    def take(self, kind: str, found: Mapping[str, Any], *, at: int) -> None:
        """Take one event of the watch."""

    def stop(self) -> None:
        """End at the next event."""
        self._stopping.set()


def present(kind: str, found: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the objects that an event shows as being there."""
    if kind == "LISTED":
        return list(found.get("items") or [])
    return [found] if kind in {"ADDED", "MODIFIED"} else []


def log_end(kind: str, found: Mapping[str, Any]) -> None:
    """Note why a server ended the watch: 410, its version is too old; the next list says all."""
    if kind == "ERROR":
        log.info("watch ended: %s", found.get("message"))


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Split a stream at line ends."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())
