"""List objects and then watch them, as plain JSON (the typed client costs ten times as much)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.client.kube_connection import get

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

Event = tuple[str, Mapping[str, Any]]
"""ADDED, MODIFIED, DELETED, BOOKMARK or ERROR with the object; LISTED with a whole list."""


@dataclass(frozen=True, slots=True)
class WatchTimes:
    """Time limits of a list, of a watch, and of the silence after the end of a watch."""

    list_seconds: float
    watch_seconds: int
    """The server ends the watch after this time."""
    overdue_seconds: float


def list_and_watch(
    api_client: ApiClient,
    path: str,
    times: WatchTimes,
    *,
    selection: Mapping[str, str] | None = None,
) -> Iterator[Event]:
    """Yield one list of the objects below ``path``, then changes until the server ends the watch.

    ``selection`` holds query parameters: the label or field selector.
    """
    selected = dict(selection or {})
    listed = json.loads(
        get(api_client, path, timeout_seconds=times.list_seconds, query=selected).data
    )
    yield "LISTED", listed
    watch = {
        "watch": "true",
        "resourceVersion": listed["metadata"].get("resourceVersion", ""),
        "timeoutSeconds": times.watch_seconds,
    }
    limits = (times.list_seconds, times.watch_seconds + times.overdue_seconds)
    answer = get(api_client, path, timeout_seconds=limits, query={**selected, **watch})
    try:
        for line in _lines(answer.stream(amt=None, decode_content=False)):
            event = json.loads(line)
            yield event["type"], event["object"]
    finally:
        answer.close()  # else a connection with an unread rest of the answer would be used again
        answer.release_conn()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Split a stream at line ends."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())
