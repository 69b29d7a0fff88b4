"""Which kinds an API server serves, asked group by group and only once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.client.kube_errors import get, translated
from lagbench.core.object_meta import subdomain_problems

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

_CALL_LIMIT_SECONDS = 10.0

_NOT_FOUND = 404


class ApiDiscovery:
    """The kinds of an API server; a group is asked for when it is first wanted."""

    def __init__(self, api_client: ApiClient) -> None:
        """Use ``api_client``; nothing is asked of the server yet."""
        self._api_client = api_client
        self._known: dict[str, frozenset[tuple[str, str]]] = {}

    def kinds(self, group: str) -> frozenset[tuple[str, str]]:
        """Return apiVersion and kind of all that a group serves; none when it is not there.

        :raises NotReady: the server does not say.
        """
        if group not in self._known:
            self._known[group] = frozenset(self._ask_group(group))
        return self._known[group]

    def _ask_group(self, group: str) -> list[tuple[str, str]]:
        if not group:
            return self._ask_version("v1", "/api/v1")
        if any(subdomain_problems(group)):
            return []  # no group can have that name, and it would be part of a path
        versions = self._ask(f"/apis/{group}").get("versions") or []
        found = [str(item["groupVersion"]) for item in versions]
        return [pair for version in found for pair in self._ask_version(version)]

    def _ask_version(self, version: str, path: str = "") -> list[tuple[str, str]]:
        resources = self._ask(path or f"/apis/{version}").get("resources") or []
        return [(version, str(item["kind"])) for item in resources if "/" not in item["name"]]

    def _ask(self, path: str) -> dict[str, Any]:
        """Return a document of the discovery; empty when there is none."""
        from kubernetes.client import ApiException

        host = self._api_client.configuration.host
        with translated(f"ask which kinds are served below {path}", host):
            try:
                answer = get(self._api_client, path, timeout_seconds=_CALL_LIMIT_SECONDS)
            except ApiException as error:
                if error.status == _NOT_FOUND:
                    return {}
                raise
            return dict(json.loads(answer.data))


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
