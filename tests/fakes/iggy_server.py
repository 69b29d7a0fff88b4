"""A small Iggy server on loopback, in either frame layout; the tests hold it against recordings.

Written from the recorded bytes and not from the adapter's code: a shared mistake would have to be
made twice. ``behaviour`` makes it slow, silent or cut off in mid-reply.
"""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from lagbench.embedded.child_server import free_port
from tests.fakes.iggy_answers import NOT_LOGGED_IN, OK, UNKNOWN_COMMAND, IggyState

_INVALID_CREDENTIALS, _NOT_FOUND, _INVALID_PASSWORD = 42, 20, 44


@dataclass
class Behaviour:
    """The faults of the server; changed while it runs."""

    delay_seconds: float = 0.0
    is_silent: bool = False
    cut_replies_bytes: int | None = None
    wakes: threading.Event = field(default_factory=threading.Event)


@dataclass
class Session:
    """The state of one connection."""

    is_logged_in: bool = False
    number: int = 0


class FakeIggyServer:
    """Serves ``state`` until the ``with`` block ends; ``port`` stays after ``stop``/``start``."""

    def __init__(self, state: IggyState, *, tls: ssl.SSLContext | None = None) -> None:
        """Prepare; nothing listens before ``start``."""
        self.state, self.behaviour = state, Behaviour()
        self.asked: list[int] = []  # command codes in order
        self.accepted = 0
        self.batches = 0  # receives that brought at least one whole request
        self.port = free_port()  # none that outgoing connections get while it is stopped
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._server: socketserver.ThreadingTCPServer | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        fake = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                fake.serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.state.port = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self) -> None:
        """Close the listening socket and every connection."""
        self.behaviour.wakes.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        self.drop_connections()

    def drop_connections(self) -> None:
        """Close the open connections; the server continues."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def serve(self, plain: socket.socket) -> None:
        """Answer one connection until it is closed."""
        self.accepted += 1
        connection = plain
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(plain, server_side=True)
            self._open.add(connection)
            self._serve(connection)
        except OSError:
            return
        finally:
            self._open.discard(connection)
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        session, received = Session(), bytearray()
        while data := connection.recv(65_536):
            received += data
            frames, received = self.split(bytes(received))
            self.batches += bool(frames)
            replies = [self.reply(frame, session) for frame in frames]
            if self.behaviour.is_silent:
                continue
            if self.behaviour.delay_seconds:
                for reply in replies:
                    self.behaviour.wakes.wait(self.behaviour.delay_seconds)
                    connection.sendall(reply)
                continue
            cut = self.behaviour.cut_replies_bytes
            if cut is not None and replies:
                connection.sendall(replies[0][:cut])
                return
            connection.sendall(b"".join(replies))

    def split(self, data: bytes) -> tuple[list[bytes], bytearray]:
        """Return the whole frames in ``data`` and what is left of it."""
        at, header = (0, 4) if self.state.version == "0.8" else (48, 256)
        frames = []
        while len(data) >= header:
            size = int.from_bytes(data[at : at + 4], "little")
            # a 0.8 server takes 8 bytes even for a length of 0
            size = max(size + 4, 8) if self.state.version == "0.8" else size
            if len(data) < size:
                break
            frames.append(data[:size])
            data = data[size:]
        return frames, bytearray(data)

    def reply(self, frame: bytes, session: Session) -> bytes:
        """Return the bytes that answer one request."""
        if self.state.version == "0.8":
            return self._plain_reply(frame, session)
        return self._replica_reply(frame, session)

    def _plain_reply(self, frame: bytes, session: Session) -> bytes:
        code, payload = int.from_bytes(frame[4:8], "little"), frame[8:]
        self.asked.append(code)
        status, body = OK, b""
        if code in {38, 44}:
            first, rest = _text(payload)
            if code == 38:
                status = self._check_password(first, _text(rest)[0])
            else:
                status = OK if first in self.state.tokens else _NOT_FOUND
            session.is_logged_in = status == OK
            body = bytes(4) if status == OK else b""
        elif code not in {1, 120, 300, 600}:
            status = UNKNOWN_COMMAND
        elif code != 1 and not session.is_logged_in:
            status = NOT_LOGGED_IN
        else:
            status, body = self.state.answer(code, payload)
        return struct.pack("<II", status, len(body)) + body

    def _replica_reply(self, frame: bytes, session: Session) -> bytes:
        operation, payload = frame[176], frame[256:]
        if operation == 1:
            return self._registered(frame, payload, session)
        code = int.from_bytes(frame[196:200], "little")
        self.asked.append(code)
        status, body = NOT_LOGGED_IN, b""
        if code == 1 or session.is_logged_in:
            status, body = self.state.answer(code, payload)
        return _replica_frame(frame, body, status)

    def _registered(self, frame: bytes, payload: bytes, session: Session) -> bytes:
        protocol = int.from_bytes(payload[:4], "little")
        if protocol >> 20 or protocol >> 10 & 1023 != 11:
            is_prefixed = protocol < 2**24
            return _eviction(frame, 14 if is_prefixed else 15, 11 << 10 if is_prefixed else 0)
        _, rest = _text(payload[4:])
        _, rest = _text(rest)
        first, rest = _text(rest)
        self.asked.append(44 if rest == bytes(4) else 38)
        if rest == bytes(4):
            is_right, reason = first in self.state.tokens, 10
        else:
            is_right, reason = self._check_password(first, _text(rest)[0]) == OK, 9
        if not is_right:
            return _eviction(frame, reason, 0)
        session.is_logged_in, session.number = True, 12
        version = b"0.9.0-edge.5"
        body = struct.pack("<IIQIB", 0, 0, session.number, 11 << 10, len(version)) + version
        return _replica_frame(frame, body, OK)

    def _check_password(self, user: str, password: str) -> int:
        if len(password) < 3:
            return _INVALID_PASSWORD
        return OK if self.state.users.get(user) == password else _INVALID_CREDENTIALS


def _replica_frame(request: bytes, body: bytes, status: int) -> bytes:
    frame = bytearray(256)
    struct.pack_into("<I", frame, 48, 256 + len(body))
    frame[60] = 8
    frame[128:144] = request[144:160]  # checksum
    frame[160:176] = request[128:144]  # client
    frame[200:208] = request[168:176]
    frame[208:216] = request[176:184]
    struct.pack_into("<I", frame, 216, status)
    return bytes(frame) + body


def _eviction(request: bytes, reason: int, protocol: int) -> bytes:
    frame = bytearray(256)
    struct.pack_into("<I", frame, 48, 256)
    frame[60], frame[255] = 13, reason
    frame[128:144] = request[128:144]
    struct.pack_into("<II", frame, 144, protocol, protocol)
    return bytes(frame)


def _text(data: bytes) -> tuple[str, bytes]:
    size = data[0]
    return data[1 : 1 + size].decode(), data[1 + size :]
