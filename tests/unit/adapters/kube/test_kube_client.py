"""A list and a watch over real connections, to a server that answers what a test gives it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import urllib3
from kubernetes import client
from kubernetes.client import ApiClient, ApiException, Configuration
from urllib3.exceptions import MaxRetryError, NewConnectionError

from lagbench.adapters.kube import followed_cluster
from lagbench.adapters.kube.followed_cluster import POD, Cluster, ClusterError, Snapshot
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.kube_client import (
    ApiDiscovery,
    WatchTimes,
    list_and_watch,
    log_in,
    patient_retries,
    reason_of,
    translated,
    warnings_of,
    written_token,
)
from lagbench.embedded.child_server import free_port
from lagbench.errors import NotAllowed, NotReady
from lagbench.project import PROJECT_ROOT
from localkube.ports import LOOPBACK

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
    """A chunk may end inside a character; an empty line is no event.

    The watch begins at the list with the same selection, and the server knows when to end it.
    """
    stream = line("ADDED", pod("a")) + b"\n" + line("DELETED", pod("a"))
    chunks = [stream[i : i + 7] for i in range(0, len(stream), 7)]

    with serving(chunks) as (client, asked):
        selection = {"labelSelector": "app=a"}
        events = list(list_and_watch(client, PODS, TIMES, selection=selection))

    assert events == [("LISTED", LIST), ("ADDED", pod("a")), ("DELETED", pod("a"))]
    assert asked == [
        f"{PODS}?labelSelector=app%3Da",
        f"{PODS}?labelSelector=app%3Da&watch=true&resourceVersion=41&timeoutSeconds=7",
    ]


def test_a_list_that_is_rejected_is_an_error_of_the_client() -> None:
    """Each caller maps it to its own error."""
    with serving([], list_status=503) as (client, _), pytest.raises(ApiException):
        next(iter(list_and_watch(client, PODS, TIMES)))


def test_a_follower_goes_on_after_any_break(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expired watch, and a caller that fails on a snapshot, end in a new list.

    The log has the caller's own error, not one of the API server.
    """
    monkeypatch.setattr(followed_cluster, "_RETRY_SECONDS", 0.0)
    seen: list[Snapshot] = []

    def see(snapshot: Snapshot) -> None:
        seen.append(snapshot)
        if len(seen) == 4:
            raise ValueError("replicas of a string")

    with serving([line("ADDED", pod("a")), line("ERROR", GONE)]) as (client, asked):
        Cluster(client).follow(POD, see, lambda: len(seen) >= 6)

    names = [sorted(name for _, name in snapshot) for snapshot in seen]
    assert names == [[], ["a"], [], ["a"], [], ["a"]]
    assert seen[1][("n", "a")]["kind"] == "Pod"
    assert len([path for path in asked if "watch=true" in path]) == 3
    assert "replicas of a string" in caplog.text
    assert "the API does not answer" not in caplog.text


def test_an_answer_that_is_not_json_is_no_answer() -> None:
    """A server that breaks off inside an event is not followed further."""
    with (
        serving([b'{"type": "ADDED", "obj\n']) as (client, _),
        pytest.raises(ClusterError, match="the API does not answer") as broken,
    ):
        list(Cluster(client)._snapshots(POD, lambda: False))

    assert broken.value.status == 0


DOCUMENTS: dict[str, dict[str, Any]] = {
    "/api/v1": {"resources": [{"name": "pods", "kind": "Pod"}, {"name": "pods/log", "kind": "X"}]},
    "/apis/apps": {"versions": [{"groupVersion": "apps/v1"}, {"groupVersion": "apps/v2"}]},
    "/apis/apps/v1": {"resources": [{"name": "deployments", "kind": "Deployment"}]},
    "/apis/apps/v2": {"resources": []},
}


class Answers:
    """An API client that knows some paths; ``asked`` lists all that were asked."""

    configuration = SimpleNamespace(host="https://api")

    def __init__(self, status: int = 404) -> None:
        """Answer unknown paths with ``status``."""
        self.asked: list[str] = []
        self._status = status

    def call_api(self, path: str, method: str, **_: object) -> SimpleNamespace:
        """Answer a GET."""
        self.asked.append(path)
        if method != "GET" or path not in DOCUMENTS:
            raise ApiException(self._status, "no")
        return SimpleNamespace(data=json.dumps(DOCUMENTS[path]).encode())


def discovery(answers: Answers) -> ApiDiscovery:
    """Return a discovery of these answers."""
    return ApiDiscovery(cast("ApiClient", answers))


def test_kinds_of_all_versions_are_found() -> None:
    """Subresources are no kinds; the core group has a path of its own.

    A name that no group can have is not even asked for; nothing is asked twice. An aggregated API
    that is unreachable, or a right that is missing, is no knowledge.
    """
    answers = Answers()
    found = discovery(answers)

    assert found.kinds("apps") == {("apps/v1", "Deployment")}
    assert found.kinds("") == {("v1", "Pod")}
    del answers.asked[:]
    for group in ("argoproj.io", "argoproj.io", "..", "a b"):
        assert found.kinds(group) == frozenset()
    assert answers.asked == ["/apis/argoproj.io"]
    with pytest.raises(NotReady, match="503"):
        discovery(Answers(503)).kinds("metrics.k8s.io")
    with pytest.raises(NotAllowed, match="403"):
        discovery(Answers(403)).kinds("metrics.k8s.io")


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: d, user: u}}]
clusters:
- {name: c, cluster: {server: "https://c.example:6443"}}
- {name: d, cluster: {server: "https://d.example:6443"}}
users: [{name: u, user: {token: secret}}]
"""


def test_a_context_names_the_server(tmp_path: Path) -> None:
    """Without one it is the kubeconfig's current context; what is missing is named with advice."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG, encoding="utf-8")

    default = log_in(path, retries=2, advice="").configuration
    other = log_in(path, context="two", retries=0, pool_size=7, advice="").configuration

    assert (default.host, default.retries) == ("https://c.example:6443", 2)
    assert (other.host, other.retries) == ("https://d.example:6443", 0)
    assert other.connection_pool_maxsize == 7 != default.connection_pool_maxsize
    with pytest.raises(NotReady, match=f"{tmp_path / 'none'}.*Write one"):
        log_in(tmp_path / "none", retries=0, advice="Write one")
    with pytest.raises(NotReady, match=r"in-cluster.*Run in a pod"):
        log_in(is_in_cluster=True, retries=0, advice="Run in a pod")


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ("{token: secret}", "secret"),
        ("{token: secret, tokenFile: /run/token}", None),
        ("{exec: {command: aws}}", None),
        ("{client-certificate-data: YQ==}", None),
    ],
)
def test_only_a_token_in_the_kubeconfig_itself_stays_the_same(
    tmp_path: Path, user: str, token: str | None
) -> None:
    """It is found for a context and for the current one; a plugin's or a file's is renewed."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG.replace("{token: secret}", user), encoding="utf-8")

    assert written_token(path, advice="") == token
    assert written_token(path, "two", advice="") == token
    assert written_token(path, "three", advice="") is None


def test_a_closed_client_keeps_no_connection() -> None:
    """The library's own close ends its threads and leaves its connections to chance."""
    api_client = client.ApiClient(client.Configuration(host="http://127.0.0.1:1"))
    pools = api_client.rest_client.pool_manager
    pools.connection_from_url("http://127.0.0.1:1")

    Kube(api_client).close()

    assert len(pools.pools) == 0


def answered(status: int, body: bytes | str) -> ApiException:
    """Return what the client makes of an answer."""
    error = ApiException(status=status, reason="ignored")
    error.body, error.headers = body, {"Audit-Id": "1"}
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            answered(503, b'{"message": "apiserver is shutting down"}'),
            "503: apiserver is shutting down",
        ),
        (answered(500, "two\nlines"), "500: two lines"),
        (OSError("a\n  b"), "a b"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_reason_of_an_error_is_one_line(error: Exception, expected: str) -> None:
    """Of an answer status and message, without its headers; without words it is the type."""
    assert f" {reason_of(error)}".endswith(f" {expected}")


@pytest.mark.parametrize(("status", "hint"), [(401, "runner-kubeconfig.sh"), (403, "role")])
def test_an_account_that_is_rejected_is_told_what_to_do(status: int, hint: str) -> None:
    """401 is a log-in that has ended, which no role changes; 403 is a missing right."""
    with pytest.raises(NotReady, match=hint), translated("list Pod", "https://api"):
        raise ApiException(status=status, reason="no")


LATE_SECONDS = 0.3


class _StartingServer(BaseHTTPRequestHandler):
    """Answers 503 and 500, then 200, as an API server that starts, whose etcd has no leader."""

    answers = (503, 500, 200)
    asked = 0

    def do_PATCH(self) -> None:
        """Answer."""
        status = self.answers[min(type(self).asked, len(self.answers) - 1)]
        type(self).asked += 1
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


@pytest.fixture
def port() -> Iterator[int]:
    """Provide a port at which a server listens after a while."""
    number, servers = free_port(), list[HTTPServer]()
    _StartingServer.asked = 0

    def serve() -> None:
        threading.Event().wait(LATE_SECONDS)
        servers.append(HTTPServer((LOOPBACK, number), _StartingServer))
        servers[0].serve_forever(poll_interval=0.05)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield number
    while not servers:
        thread.join(0.05)
    servers[0].shutdown()
    servers[0].server_close()


def ask(port: int, patience_seconds: float) -> int:
    """Return the status of one write."""
    retries = patient_retries(patience_seconds)
    with urllib3.PoolManager(retries=retries) as pool:
        answer = pool.request("PATCH", f"http://{LOOPBACK}:{port}/", body=b"{}", timeout=60)
        return int(answer.status)


def test_a_write_waits_for_a_server_that_comes_back(port: int) -> None:
    """Nobody listens, the server is not ready, has an error of its own: then the write succeeds."""
    assert ask(port, 60) == 200


def test_patience_ends() -> None:
    """While connections are rejected the pauses come to what was asked for, and little more."""
    retries, waited_seconds = patient_retries(45), 0.0
    refused = NewConnectionError(None, "refused")  # type: ignore[arg-type]

    with contextlib.suppress(MaxRetryError):
        while waited_seconds < 100:
            retries = retries.increment("PATCH", "/", error=refused)
            waited_seconds += retries.get_backoff_time()

    assert 45 <= waited_seconds < 50


RECORDED = PROJECT_ROOT / "tests/data/refused_pods/warning_header.txt"


def test_every_warning_is_read_with_its_quotes() -> None:
    """The API server escapes them in the header; several may be in one, joined by a proxy."""
    (text,) = warnings_of([RECORDED.read_text().strip()])

    assert ' "restricted:latest": ' in text
    assert text.endswith(' "RuntimeDefault" or "Localhost")')
    assert warnings_of(['299 - "a"', r'299 - "b \\ \"c\"", 299 - "d"']) == ("a", 'b \\ "c"', "d")
    assert warnings_of([]) == ()
