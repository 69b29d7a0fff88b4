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
from lagbench.adapters.kube.client.api_discovery import ApiDiscovery, WatchTimes, list_and_watch
from lagbench.adapters.kube.client.kube_errors import (
    log_in,
    patient_retries,
    reason_of,
    translated,
    warnings_of,
    written_token,
)
from lagbench.adapters.kube.followed_cluster import POD, ClusterError, KubeCluster, Snapshot
from lagbench.adapters.kube.kube import Kube
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
    """Subresources are no kinds; the core group has a path of its own."""
    found = discovery(Answers())

    assert found.kinds("apps") == {("apps/v1", "Deployment")}
    assert found.kinds("") == {("v1", "Pod")}


def test_a_group_that_is_not_there_serves_nothing() -> None:
    """A name that no group can have is not even asked for; nothing is asked twice."""
    answers = Answers()
    found = discovery(answers)

    for group in ("argoproj.io", "argoproj.io", "..", "a b"):
        assert found.kinds(group) == frozenset()

    assert answers.asked == ["/apis/argoproj.io"]


def test_another_answer_is_no_knowledge() -> None:
    """An aggregated API that is unreachable, or a right that is missing, is told."""
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
    """Without one it is the kubeconfig's current context."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG, encoding="utf-8")

    default = log_in(path, retries=2, advice="").configuration
    other = log_in(path, context="two", retries=0, pool_size=7, advice="").configuration

    assert (default.host, default.retries) == ("https://c.example:6443", 2)
    assert (other.host, other.retries) == ("https://d.example:6443", 0)
    assert other.connection_pool_maxsize == 7 != default.connection_pool_maxsize


def test_a_kubeconfig_that_is_missing_is_named_with_advice(tmp_path: Path) -> None:
    """The message has the path and what to do."""
    path = tmp_path / "none"

    with pytest.raises(NotReady, match=f"{path}.*Write one"):
        log_in(path, retries=0, advice="Write one")


def test_outside_a_pod_there_is_no_account() -> None:
    """Then the message says that the cluster around the pod was meant."""
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


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (503, b'{"message": "apiserver is shutting down"}', "503: apiserver is shutting down"),
        (500, "two\nlines", "500: two lines"),
    ],
)
def test_what_the_api_server_answered_is_one_line(status: int, body: object, expected: str) -> None:
    """Status and message are told, its headers are not."""
    error = ApiException(status=status, reason="ignored")
    error.body = body
    error.headers = {"Audit-Id": "1"}

    assert reason_of(error).endswith(f" {expected}")


def test_another_error_is_reported_in_one_line_too() -> None:
    """Without words it is its type."""
    assert reason_of(OSError("a\n  b")) == "a b"
    assert reason_of(TimeoutError()) == "TimeoutError"


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


def test_a_text_has_its_quotes() -> None:
    """The API server escapes them in the header."""
    (text,) = warnings_of([RECORDED.read_text().strip()])

    assert ' "restricted:latest": ' in text
    assert text.endswith(' "RuntimeDefault" or "Localhost")')


def test_every_warning_is_read() -> None:
    """They may come in headers of their own, or joined by a proxy."""
    assert warnings_of(['299 - "a"', r'299 - "b \\ \"c\"", 299 - "d"']) == ("a", 'b \\ "c"', "d")
    assert warnings_of([]) == ()
