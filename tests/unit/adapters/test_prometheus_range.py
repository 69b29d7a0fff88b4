"""A range query: pages, the login, and servers that are none."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.integration.certificates import Authority

from lagbench.adapters.prometheus import PrometheusRange
from lagbench.errors import LagbenchError, NotReady, WrongInput


@contextmanager
def serving(
    status: int, body: Any, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Serve one answer; a callable makes it of the request's fields, which are listed."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = {name: one[0] for name, one in parse_qs(urlsplit(self.path).query).items()}
            seen.append({**asked, "login": self.headers.get("Authorization", "")})
            content = body(asked) if callable(body) else body
            text = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_port}/prefix", seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def page(asked: dict[str, str]) -> dict[str, Any]:
    """Answer as Prometheus: one series, its value is the second."""
    instants = range(int(asked["start"]), int(asked["end"]) + 1, int(asked["step"]))
    series = {"metric": {"job": "a"}, "values": [[at, str(at)] for at in instants]}
    return {"status": "success", "data": {"resultType": "matrix", "result": [series]}}


def test_a_long_period_takes_several_requests() -> None:
    """Each point comes once, and each request has the token."""
    word = "t"
    with serving(200, page) as (url, seen):
        (series,) = PrometheusRange(url, token=word).ask("up", 100, 190, 10, page=4)

    assert series.values == {at: float(at) for at in range(100, 191, 10)}
    assert [(one["start"], one["end"]) for one in seen] == [
        ("100", "130"),
        ("140", "170"),
        ("180", "190"),
    ]
    assert {one["login"] for one in seen} == {"Bearer t"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "part"),
    [
        (200, "<html>login", NotReady, "is the URL that of a Prometheus"),
        (404, "nothing", NotReady, "HTTP 404"),
        (302, "", NotReady, "HTTP 302"),
        (200, {"hello": 1}, NotReady, "no answer of its API"),
        (401, "", WrongInput, "--token-file"),
        (400, {"status": "error", "error": "parse error at char 3"}, WrongInput, "parse error"),
        (422, {"status": "error", "error": "too many samples"}, WrongInput, "too many samples"),
        (503, {"status": "error", "error": "timed out"}, NotReady, "timed out"),
    ],
)
def test_what_is_no_answer_is_one_clear_message(
    status: int, body: Any, kind: type[LagbenchError], part: str
) -> None:
    """A query that is refused has the server's words."""
    with serving(status, body) as (url, _), pytest.raises(kind) as refused:
        PrometheusRange(url).ask("up", 0, 10, 10)

    assert part in str(refused.value)


def test_a_server_is_checked_by_the_given_authority(tmp_path: Path) -> None:
    """Without its file the certificate is not trusted, and nothing is read."""
    authority, context = Authority(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair, files = authority.issue("prometheus"), [tmp_path / name for name in ("ca", "cert", "key")]
    texts = (authority.certificate, pair.certificate, pair.private_key)
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    context.load_cert_chain(files[1], files[2])

    with serving(200, page, context) as (url, _):
        assert len(PrometheusRange(url, ca_file=files[0]).ask("up", 0, 10, 10)) == 1
        with pytest.raises(NotReady, match="certificate verify failed"):
            PrometheusRange(url).ask("up", 0, 10, 10)


@pytest.mark.parametrize(
    "url", ["localhost:9090", "http://user:secret@host", "ftp://host", "http://["]
)
def test_an_url_is_http_without_a_login(url: str) -> None:
    """The login is not shown."""
    with pytest.raises(WrongInput) as refused:
        PrometheusRange(url)

    assert "secret" not in str(refused.value)
