"""A client that rides out a server that is unreachable, against a server that comes late."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import urllib3
from urllib3.exceptions import MaxRetryError, NewConnectionError

from lagbench.adapters.kube.client.kube_retries import patient_retries
from lagbench.embedded.ports import LOOPBACK, free_port

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
