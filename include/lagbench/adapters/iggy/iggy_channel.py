"""One logged-in TCP connection to an Iggy server: many requests under way, every wait bounded.

Each connect determines the frame layout with one ping of 0.9: a 0.8 server answers with 8-byte
errors (its stream is then out of step, so a second connection is opened), a 0.9 server with a 0.9
frame.
"""

from __future__ import annotations

import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

import lagbench
from lagbench.adapters.iggy import iggy_wire as wire
from lagbench.adapters.iggy.iggy_connection import IggyConnection
from lagbench.adapters.iggy.iggy_frames import (
    FrameLayout,
    PlainLayout,
    ReplicaLayout,
    is_plain_answer,
)
from lagbench.errors import NotReady

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

    def __init__(self, connected: socket.socket, layout: FrameLayout, where: str) -> None:
        """Talk over a connected socket; ``open`` makes one and logs in."""
        self.layout = layout
        self._socket = connected
        self._where = where
        self._received = bytearray()

    @classmethod
    def open(cls, connection: IggyConnection, deadline: Deadline) -> Self:
        """Connect, find out the frame layout and log in."""
        channel = cls._probed(connection, deadline)
        try:
            channel.log_in(connection, deadline)
        except BaseException:
            channel.close()
            raise
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

    @classmethod
    def _probed(cls, connection: IggyConnection, deadline: Deadline) -> Self:
        where = connection.server_address
        layout = ReplicaLayout(os.urandom(16), client_version=lagbench.__version__)
        channel = cls(_connected(connection, deadline), layout, where)
        try:
            channel._send(layout.request(wire.PING, b""), deadline)
            if is_plain_answer(channel._peek(_PROBE_BYTES, deadline)):
                channel.close()
                return cls(_connected(connection, deadline), PlainLayout(), where)
            channel._reply(deadline).ok_body()
        except BaseException:
            channel.close()
            raise
        return channel

    def log_in(self, connection: IggyConnection, deadline: Deadline) -> None:
        """Log in with the token or the password; raise what the server says against it."""
        if connection.access_token is not None:
            frame = self.layout.login_by_token(connection.access_token.get_secret_value())
        elif connection.password is not None:
            frame = self.layout.login_by_password(
                connection.username, connection.password.get_secret_value()
            )
        else:  # a connection without credentials cannot be built
            raise NotReady(f"could not log in at {self._where}: no credentials")
        self._send(frame, deadline)
        self.layout.accept_login(self._reply(deadline))

    def _reply(self, deadline: Deadline) -> wire.Reply:
        header = self._take(self.layout.header_bytes, deadline)
        body = self._take(self.layout.body_bytes(header), deadline)
        return self.layout.reply(header, body)

    def _send(self, frames: bytes, deadline: Deadline) -> None:
        what = f"ask the Iggy server at {self._where}"
        self._socket.settimeout(deadline.remaining_seconds(what))
        try:
            self._socket.sendall(frames)
        except TimeoutError as error:
            raise deadline.passed(what) from error
        except OSError as error:
            raise self._lost(error) from error

    def _take(self, size_bytes: int, deadline: Deadline) -> bytes:
        taken = self._peek(size_bytes, deadline)
        del self._received[:size_bytes]
        return taken

    def _peek(self, size_bytes: int, deadline: Deadline) -> bytes:
        what = f"read from the Iggy server at {self._where}"
        while len(self._received) < size_bytes:
            self._socket.settimeout(deadline.remaining_seconds(what))
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError as error:
                raise deadline.passed(what) from error
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise self._lost("it closed the connection")
            self._received += data
        return bytes(self._received[:size_bytes])

    def _lost(self, reason: object) -> ConnectionLost:
        return ConnectionLost(f"lost the connection to the Iggy server at {self._where}: {reason}")


def _connected(connection: IggyConnection, deadline: Deadline) -> socket.socket:
    host, port = connection.address
    what = f"connect to the Iggy server at {connection.server_address}"
    # read before the connect: a file that is missing has nothing to do with the server
    context = _tls_context(connection) if connection.is_tls else None
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
            return context.wrap_socket(plain, server_hostname=connection.tls_server_name or host)
        except TimeoutError as error:
            plain.close()
            raise deadline.passed(what) from error
        except OSError as error:
            plain.close()
            last_error = error
        except NotReady:
            plain.close()
            raise
    raise NotReady(f"could not {what}: {last_error}. Check that it is up and serves this port")


def _tls_context(connection: IggyConnection) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(
            cafile=connection.tls_ca_file or None, cadata=connection.tls_ca_pem or None
        )
    except OSError as error:
        named = connection.tls_ca_file or "given"
        raise NotReady(
            f"could not read the CA ({named}) of the Iggy server at "
            f"{connection.server_address}: {error.strerror or error}. It must be PEM certificates"
        ) from error


def _resolve(
    host: str, port: int, deadline: Deadline
) -> Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]]:
    """Look the host up on a thread of its own: the system's resolver takes no time limit."""
    answers: queue.SimpleQueue[
        Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]]]
        | OSError
    ] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else OSError(str(error)))

    what = f"find the address of {host}"
    threading.Thread(target=look_up, name="iggy-resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.remaining_seconds(what))
    except queue.Empty as error:
        raise deadline.passed(what) from error
    if isinstance(answer, OSError):
        raise NotReady(f"could not {what}: {answer.strerror or answer}") from answer
    return answer
