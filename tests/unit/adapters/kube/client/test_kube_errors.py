"""Why the API server was not read, in the words that a note repeats."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import urllib3
from kubernetes.client import ApiException
from urllib3.exceptions import MaxRetryError, NewConnectionError

from lagbench.adapters.kube.client.kube_connection import warnings_of
from lagbench.adapters.kube.client.kube_errors import patient_retries, reason_of, translated
from lagbench.embedded.child_server import LOOPBACK, free_port
from lagbench.errors import NotReady
from lagbench.project import PROJECT_ROOT


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
