"""A list and a watch over real connections, to a server that answers what a test gives it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, Configuration

from lagbench.adapters.kube import followed_cluster
from lagbench.adapters.kube.client.api_discovery import WatchTimes, list_and_watch
from lagbench.adapters.kube.cluster_protocol import POD, ClusterError, Snapshot
from lagbench.adapters.kube.followed_cluster import KubeCluster

PODS = "/api/v1/pods"
TIMES = WatchTimes(list_seconds=5.0, watch_seconds=7, overdue_seconds=1.0)
LIST = {"metadata": {"resourceVersion": "41"}, "items": []}
GONE = {"code": 410, "reason": "Expired", "message": "too old resource version"}


def pod(name: str) -> dict[str, Any]:
    """Return an object with a name that is not ASCII in its labels."""
    return {"metadata": {"namespace": "n", "name": name, "labels": {"of": "größe"}}}


@contextmanager
def serving(
    chunks: list[bytes], *, list_status: int = 200
) -> Iterator[tuple[ApiClient, list[str]]]:
    """Serve the discovery, the list, and a watch of these chunks; yield a client and the paths."""
    asked: list[str] = []
    kinds = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "watch"]}
    documents: dict[str, Any] = {
        "/version": {"major": "1", "minor": "34"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "groups": []},
        "/api/v1": {"kind": "APIResourceList", "resources": [kinds]},
    }

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            if "watch=true" in self.path:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for chunk in (*chunks, b""):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                return
            found = documents.get(self.path.partition("?")[0])
            body = json.dumps(LIST if found is None else found).encode()
            self.send_response(list_status if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    configuration = Configuration(host=f"http://127.0.0.1:{server.server_port}")
    configuration.retries = 0
    client = ApiClient(configuration)
    try:
        yield client, asked
    finally:
        client.rest_client.pool_manager.clear()
        server.shutdown()
        thread.join()
        server.server_close()


def line(kind: str, found: dict[str, Any]) -> bytes:
    """Return an event as the API server sends it."""
    return json.dumps({"type": kind, "object": found}, ensure_ascii=False).encode() + b"\n"


def test_events_are_read_whatever_the_chunks_are() -> None:
    """A chunk may end inside a character; an empty line is no event."""
    stream = line("ADDED", pod("a")) + b"\n" + line("DELETED", pod("a"))
    chunks = [stream[i : i + 7] for i in range(0, len(stream), 7)]

    with serving(chunks) as (client, _):
        events = list(list_and_watch(client, PODS, TIMES))

    assert events == [("LISTED", LIST), ("ADDED", pod("a")), ("DELETED", pod("a"))]


def test_the_watch_begins_at_the_list_with_the_same_selection() -> None:
    """Nothing between the two is missed, and the server knows when to end the watch."""
    with serving([]) as (client, asked):
        list(list_and_watch(client, PODS, TIMES, selection={"labelSelector": "app=a"}))

    assert asked[0] == f"{PODS}?labelSelector=app%3Da"
    assert asked[1] == (
        f"{PODS}?labelSelector=app%3Da&watch=true&resourceVersion=41&timeoutSeconds=7"
    )


def test_a_list_that_is_rejected_is_an_error_of_the_client() -> None:
    """Each caller maps it to its own error."""
    with serving([], list_status=503) as (client, _), pytest.raises(ApiException):
        next(iter(list_and_watch(client, PODS, TIMES)))


def test_an_expired_watch_ends_in_a_new_list() -> None:
    """The cluster's follower keeps what it has, reports the server's reason and lists again."""
    seen: list[Snapshot] = []

    with serving([line("ADDED", pod("a")), line("ERROR", GONE)]) as (client, asked):
        KubeCluster(client).follow(POD, seen.append, lambda: len(seen) >= 4)

    assert [sorted(name for _, name in snapshot) for snapshot in seen] == [[], ["a"], [], ["a"]]
    assert seen[1][("n", "a")]["kind"] == "Pod"
    assert len([path for path in asked if "watch=true" in path]) == 2


def test_an_answer_that_is_not_json_is_no_answer() -> None:
    """A server that breaks off inside an event is not followed further."""
    with serving([b'{"type": "ADDED", "obj\n']) as (client, _):
        cluster = KubeCluster(client)
        with pytest.raises(ClusterError, match="the API does not answer") as broken:
            list(cluster._snapshots(POD, lambda: False))

    assert broken.value.status == 0


def test_a_follower_goes_on_when_its_caller_fails_on_a_snapshot(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller gets the list again, and the log has its own error, not one of the API server."""
    monkeypatch.setattr(followed_cluster, "_RETRY_SECONDS", 0.0)
    seen: list[Snapshot] = []

    def see(snapshot: Snapshot) -> None:
        seen.append(snapshot)
        if len(seen) == 1:
            raise ValueError("replicas of a string")

    with serving([]) as (client, _):
        KubeCluster(client).follow(POD, see, lambda: len(seen) >= 2)

    assert seen == [{}, {}]
    assert "replicas of a string" in caplog.text
    assert "the API does not answer" not in caplog.text
