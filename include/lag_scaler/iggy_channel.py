"""One logged-in TCP connection to an Iggy server: many requests under way, every wait bounded.

Each connect determines the frame layout with one ping of 0.9: a 0.8 server answers with 8-byte
errors (its stream is then out of step, so a second connection is opened), a 0.9 server with a 0.9
frame.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from collections.abc import Iterator, Sequence

from lag_scaler import iggy_wire as wire
from lag_scaler.addresses import IggyServer, split_iggy_address
from pod_program.errors import NotReady

Request = tuple[int, bytes]  # command code and payload

# Requests sent ahead of their replies. Half of them go out at once: 32 requests of at most
# 1,100 bytes fit into the socket buffers, so that client and server never wait for each other.
_AHEAD = 64
_RECEIVE_BYTES = 64 * 1024
_PROBE_BYTES = 8


class ConnectionLost(NotReady):
    """The server closed an open connection, or the network did."""


class IggyChannel:
    """A connection that is open and logged in until ``close``; used by one thread at a time."""

    def __init__(self, server: IggyServer, timeout_seconds: float) -> None:
        """Connect, find out the frame layout and log in, within the time that a sample may take."""
        self.layout: wire.PlainLayout = wire.ReplicaLayout(os.urandom(16))
        self._server, self._timeout_seconds = server, timeout_seconds
        self.begin()
        self._connect()
        try:
            self._send(self.layout.request(wire.PING, b""))
            if wire.is_plain_answer(self._peek(_PROBE_BYTES)):
                self.close()
                self.layout = wire.PlainLayout()
                self._connect()
            else:
                self._reply().ok_body()
            self._log_in()
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        """Allow the whole time again, for the next sample."""
        self._ends_at = time.monotonic() + self._timeout_seconds

    def ask(self, requests: Sequence[Request]) -> list[wire.Reply]:
        """Return the replies in the order of the requests; the server answers in order."""
        replies: list[wire.Reply] = []
        sent = 0
        while len(replies) < len(requests):
            if sent < len(requests) and sent - len(replies) <= _AHEAD // 2:
                batch = requests[sent : sent + _AHEAD // 2]
                self._send(b"".join(self.layout.request(*item) for item in batch))
                sent += len(batch)
            replies.append(self._reply())
        return replies

    def close(self) -> None:
        """Close the connection; once is enough, twice does no harm."""
        self._socket.close()

    def _connect(self) -> None:
        server, self._received = self._server, bytearray()
        context = None
        if server.is_tls:
            try:
                context = ssl.create_default_context(cadata=server.ca or None)
            except OSError as error:
                raise NotReady(
                    f"could not read the CA of the Iggy server at {server.server_address}: "
                    f"{error.strerror or error}. It must be PEM certificates"
                ) from error
        host, port = split_iggy_address(server.server_address) or ("", 0)
        what = "connect to"
        try:
            self._socket = socket.create_connection((host, port), self._left_seconds(what))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                with contextlib.closing(self._socket):  # wrapping takes its place, or fails
                    self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except TimeoutError as error:
            raise self._late(what) from error
        except (OSError, UnicodeError) as error:
            raise NotReady(
                f"could not {what} the Iggy server at {server.server_address}: {error}. "
                "Check that it is up and serves this port"
            ) from error

    def _log_in(self) -> None:
        server = self._server
        if server.access_token is not None:
            frame = self.layout.login_by_token(server.access_token.get_secret_value())
        else:
            password = server.password.get_secret_value() if server.password is not None else ""
            frame = self.layout.login_by_password(server.username, password)
        self._send(frame)
        self.layout.accept_login(self._reply())

    def _reply(self) -> wire.Reply:
        header = self._take(self.layout.header_bytes)
        return self.layout.reply(header, self._take(self.layout.body_bytes(header)))

    def _send(self, frames: bytes) -> None:
        with self._bounded("ask"):
            self._socket.sendall(frames)

    def _take(self, size_bytes: int) -> bytes:
        taken = self._peek(size_bytes)
        del self._received[:size_bytes]
        return taken

    def _peek(self, size_bytes: int) -> bytes:
        while len(self._received) < size_bytes:
            with self._bounded("read from"):
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError("it closed the connection")
            self._received += data
        return bytes(self._received[:size_bytes])

    @contextlib.contextmanager
    def _bounded(self, what: str) -> Iterator[None]:
        self._socket.settimeout(self._left_seconds(what))
        try:
            yield
        except TimeoutError as error:
            raise self._late(what) from error
        except OSError as error:
            where = self._server.server_address
            raise ConnectionLost(
                f"lost the connection to the Iggy server at {where}: {error}"
            ) from error

    def _left_seconds(self, what: str) -> float:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise self._late(what)
        return left

    def _late(self, what: str) -> NotReady:
        return NotReady(
            f"could not {what} the Iggy server at {self._server.server_address}: no answer within "
            f"{self._timeout_seconds:g} s. Check that the server is up, and whether it requires TLS"
        )
