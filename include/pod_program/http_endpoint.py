"""A pod's HTTP endpoint: a few GET routes, answered from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from pod_program.errors import NotReady, WrongInput

Answer = tuple[int, bytes]
Routes = Mapping[str, Callable[[], Answer]]

_DEFAULT_PORT = "8080"
_HIGHEST_PORT = 65_535
_TEXT = "text/plain; charset=utf-8"


class HttpEndpoint:
    """Serves ``routes`` until closed."""

    def __init__(self, address: str, port: int, routes: Routes) -> None:
        """Listen; port 0 takes a free one."""

        class Handler(_Handler):
            served = routes

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except OSError as error:
            raise NotReady(
                f"cannot listen on {address}:{port}: {error.strerror}; set PORT_METRICS"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True).start()

    def close(self) -> None:
        """Stop serving; takes up to half a second, so a program that ends just ends."""
        self._server.shutdown()
        self._server.server_close()


def probe_routes(is_ready: Callable[[], bool]) -> Routes:
    """Return the kubelet's routes: /ready and /healthz."""
    return {
        "/ready": lambda: (200, b"ready\n") if is_ready() else (503, b"not ready\n"),
        "/healthz": lambda: (200, b"ok\n"),
    }


def address_and_port(environment: Mapping[str, str]) -> tuple[str, int]:
    """Return listen address: BIND_ADDRESS (loopback by default) and PORT_METRICS."""
    text = environment.get("PORT_METRICS") or _DEFAULT_PORT
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise WrongInput(
            where="environment", field="PORT_METRICS", value=text, allowed=f"0 to {_HIGHEST_PORT}"
        )
    return environment.get("BIND_ADDRESS") or "127.0.0.1", int(text)


class _Handler(BaseHTTPRequestHandler):
    served: ClassVar[Routes] = {}
    timeout = 10  # seconds; a client that sends nothing does not keep its thread

    def do_GET(self) -> None:
        """Answer one of the routes."""
        answer = self.served.get(self.path.partition("?")[0])
        status, body = answer() if answer else (404, b"not found\n")
        self.send_response(status)
        self.send_header("Content-Type", _TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: there is a probe every second."""
