"""One logged-in TCP connection to an Iggy server: many requests under way, every wait bounded.

Each connect determines the frame layout with one ping of 0.9: a 0.8 server answers with 8-byte
errors (its stream is then out of step, so a second connection is opened), a 0.9 server with a 0.9
frame.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

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


class Deadline:
    """The moment at which every wait of one piece of work ends."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow ``seconds`` from now."""
        self.seconds = seconds
        self._clock = clock
        self._ends_at = clock() + seconds

    def remaining_seconds(self, what: str) -> float:
        """Return what is left, or raise that there was no answer in time."""
        left = self._ends_at - self._clock()
        if left <= 0:
            raise self.passed(what)
        return left

    def passed(self, what: str) -> NotReady:
        """Return the error that says what took too long."""
        return NotReady(
            f"could not {what}: no answer within {self.seconds:g} s. "
            "Check that the server is up, and whether it requires TLS"
        )


class IggyChannel:
    """A connection that is open and logged in until ``close``; not for two threads at once."""

    def __init__(self, connected: socket.socket, layout: wire.PlainLayout, where: str) -> None:
        """Talk over a connected socket; ``open`` makes one and logs in."""
        self.layout = layout
        self._socket = connected
        self._where = where
        self._received = bytearray()

    @classmethod
    def open(cls, server: IggyServer, deadline: Deadline) -> Self:
        """Connect, find out the frame layout and log in."""
        layout = wire.ReplicaLayout(os.urandom(16))
        channel = cls(_connected(server, deadline), layout, server.server_address)
        with _closed_on_error(channel):
            channel._send(layout.request(wire.PING, b""), deadline)
            is_plain = wire.is_plain_answer(channel._peek(_PROBE_BYTES, deadline))
            if not is_plain:
                channel._reply(deadline).ok_body()
        if is_plain:
            channel.close()
            plain = wire.PlainLayout()
            channel = cls(_connected(server, deadline), plain, server.server_address)
        with _closed_on_error(channel):
            channel._log_in(server, deadline)
        return channel

    def ask(self, requests: Sequence[Request], deadline: Deadline) -> list[wire.Reply]:
        """Return the replies in the order of the requests; the server answers in order."""
        replies: list[wire.Reply] = []
        sent = 0
        while len(replies) < len(requests):
            if sent < len(requests) and sent - len(replies) <= _AHEAD // 2:
                batch = requests[sent : sent + _AHEAD // 2]
                self._send(b"".join(self.layout.request(*item) for item in batch), deadline)
                sent += len(batch)
            replies.append(self._reply(deadline))
        return replies

    def close(self) -> None:
        """Close the connection; once is enough, twice does no harm."""
        self._socket.close()

    def _log_in(self, server: IggyServer, deadline: Deadline) -> None:
        if server.access_token is not None:
            frame = self.layout.login_by_token(server.access_token.get_secret_value())
        else:
            password = server.password.get_secret_value() if server.password is not None else ""
            frame = self.layout.login_by_password(server.username, password)
        self._send(frame, deadline)
        self.layout.accept_login(self._reply(deadline))

    def _reply(self, deadline: Deadline) -> wire.Reply:
        header = self._take(self.layout.header_bytes, deadline)
        body = self._take(self.layout.body_bytes(header), deadline)
        return self.layout.reply(header, body)

    def _send(self, frames: bytes, deadline: Deadline) -> None:
        with self._bounded(f"ask the Iggy server at {self._where}", deadline):
            self._socket.sendall(frames)

    def _take(self, size_bytes: int, deadline: Deadline) -> bytes:
        taken = self._peek(size_bytes, deadline)
        del self._received[:size_bytes]
        return taken

    def _peek(self, size_bytes: int, deadline: Deadline) -> bytes:
        while len(self._received) < size_bytes:
            with self._bounded(f"read from the Iggy server at {self._where}", deadline):
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError("it closed the connection")
            self._received += data
        return bytes(self._received[:size_bytes])

    @contextlib.contextmanager
    def _bounded(self, what: str, deadline: Deadline) -> Iterator[None]:
        self._socket.settimeout(deadline.remaining_seconds(what))
        try:
            yield
        except TimeoutError as error:
            raise deadline.passed(what) from error
        except OSError as error:
            raise ConnectionLost(
                f"lost the connection to the Iggy server at {self._where}: {error}"
            ) from error


@contextlib.contextmanager
def _closed_on_error(channel: IggyChannel) -> Iterator[None]:
    try:
        yield
    except BaseException:
        channel.close()
        raise


def _connected(server: IggyServer, deadline: Deadline) -> socket.socket:
    host, port = split_iggy_address(server.server_address) or ("", 0)
    what = f"connect to the Iggy server at {server.server_address}"
    # read before the connect: an unusable CA has nothing to do with the server
    context = _tls_context(server) if server.is_tls else None
    last_error: OSError | None = None
    for family, kind, protocol, _, address in _resolve(host, port, deadline):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(deadline.remaining_seconds(what))
            plain.connect(address)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                return plain
            plain.settimeout(deadline.remaining_seconds(what))
            return context.wrap_socket(plain, server_hostname=host)
        except (OSError, NotReady) as error:
            plain.close()
            if isinstance(error, TimeoutError):
                raise deadline.passed(what) from error
            if not isinstance(error, OSError):
                raise
            last_error = error
    raise NotReady(f"could not {what}: {last_error}. Check that it is up and serves this port")


def _tls_context(server: IggyServer) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=server.ca or None)
    except OSError as error:
        raise NotReady(
            f"could not read the CA of the Iggy server at {server.server_address}: "
            f"{error.strerror or error}. It must be PEM certificates"
        ) from error


def _resolve(host: str, port: int, deadline: Deadline) -> Sequence[Any]:
    """Look the host up on a thread of its own: the system's resolver takes no time limit."""
    answers: queue.SimpleQueue[Sequence[Any] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    what = f"find the address of {host}"
    threading.Thread(target=look_up, name="iggy-resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.remaining_seconds(what))
    except queue.Empty as error:
        raise deadline.passed(what) from error
    if isinstance(answer, Exception):
        raise NotReady(f"could not {what}: {answer}") from answer
    return answer
