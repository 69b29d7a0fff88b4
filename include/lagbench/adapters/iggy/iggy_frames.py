"""The two frame layouts of Apache Iggy's TCP protocol, which share nothing but the payloads.

Servers up to 0.8 speak ``PlainLayout`` (8 bytes of header both ways), those of 0.9
``ReplicaLayout`` (256 bytes, as their replicas speak among themselves).
"""

from __future__ import annotations

import struct
from typing import Protocol

from lagbench.adapters.iggy.iggy_wire import (
    Fields,
    IggyRefused,
    MalformedReply,
    PartitionState,
    Reply,
    counted,
    parse_topic,
)

_LOGIN_PASSWORD, _LOGIN_TOKEN = 38, 44
_LARGEST_REPLY_BYTES = 16 * 2**20
_EVICTION_TEXTS = {
    9: "wrong user or password",
    10: "wrong access token",
    14: "the protocol version is not supported",
    15: "the login has no protocol version",
}


class FrameLayout(Protocol):
    """The format of requests and replies of one generation of servers."""

    version: str
    header_bytes: int

    def login_by_password(self, username: str, password: str) -> bytes:
        """Return the frame that logs in with a password."""

    def login_by_token(self, token: str) -> bytes:
        """Return the frame that logs in with a personal access token."""

    def accept_login(self, reply: Reply) -> None:
        """Take from the reply to a login what later requests need; raise if it was rejected."""

    def request(self, code: int, payload: bytes) -> bytes:
        """Return the frame of a read."""

    def body_bytes(self, header: bytes) -> int:
        """Return how many bytes follow this header."""

    def reply(self, header: bytes, body: bytes) -> Reply:
        """Return the reply of a whole frame."""

    def parse_topic(self, body: bytes) -> tuple[PartitionState, ...]:
        """Return the topic's partitions by number; empty if there is no such topic."""


class PlainLayout:
    """Frames of servers up to 0.8: length, code, payload; status, length, body."""

    version = "0.8"
    header_bytes = 8

    def login_by_password(self, username: str, password: str) -> bytes:
        """Return the frame; two empty counted texts stand for client version and context."""
        return self.request(_LOGIN_PASSWORD, counted(username) + counted(password) + bytes(8))

    def login_by_token(self, token: str) -> bytes:
        """Return the frame that logs in with a personal access token."""
        return self.request(_LOGIN_TOKEN, counted(token))

    def accept_login(self, reply: Reply) -> None:
        """Check the status: the connection itself is logged in, no request names it."""
        reply.ok_body()

    def request(self, code: int, payload: bytes) -> bytes:
        """Return length, code and payload; the length counts the code too."""
        return struct.pack("<II", 4 + len(payload), code) + payload

    def body_bytes(self, header: bytes) -> int:
        """Return the second number of the header."""
        return _bounded(int.from_bytes(header[4:8], "little"))

    def reply(self, header: bytes, body: bytes) -> Reply:
        """Return status and body."""
        return Reply(int.from_bytes(header[:4], "little"), body)

    def parse_topic(self, body: bytes) -> tuple[PartitionState, ...]:
        """Read a topic's header of 0.8 (it has a replication factor) and its partitions."""
        return parse_topic(body, bytes_before_sizes=8 + 1 + 8 + 1, options=0)


class ReplicaLayout:
    """Frames of 0.9 servers: 256 bytes of header with client, session and operation."""

    version = "0.9"
    header_bytes = 256
    _REGISTER, _READ = 1, 2  # operations: log in; a command that no replica has to repeat
    _REQUEST, _REPLY, _EVICTION = 5, 8, 13

    def __init__(
        self,
        client_id: bytes,
        *,
        protocol: tuple[int, int, int] = (0, 11, 0),
        client_name: str = "lagbench",
        client_version: str = "0.1.0",
    ) -> None:
        """Speak as a client of 16 random bytes (a server drops the frames of a zero one)."""
        if len(client_id) != 16 or not any(client_id):
            raise ValueError("a client id has 16 bytes and is not zero")
        self._client_id = client_id
        self._session = 0
        major, minor, patch = protocol
        packed = struct.pack("<I", major << 20 | minor << 10 | patch)
        self._prefix = packed + counted(client_name) + counted(client_version)

    def login_by_password(self, username: str, password: str) -> bytes:
        """Return the frame that registers the client with a password."""
        return self._register(counted(username) + counted(password))

    def login_by_token(self, token: str) -> bytes:
        """Return the frame that registers the client with a personal access token."""
        return self._register(counted(token))

    def accept_login(self, reply: Reply) -> None:
        """Keep the session: result section (0 errors), user id, session, versions."""
        fields = Fields(reply.ok_body())
        if fields.number(4):
            fields.skip(4)
            raise IggyRefused(f"login failed with error {fields.number(4)}")
        fields.skip(4)
        self._session = fields.number(8)

    def request(self, code: int, payload: bytes) -> bytes:
        """Return the frame of a read; reads do not advance the request number."""
        return self._frame(self._READ, code, payload, request=1, session=self._session)

    def body_bytes(self, header: bytes) -> int:
        """Return the frame's size without its header."""
        size = int.from_bytes(header[48:52], "little")
        if size < self.header_bytes:
            raise MalformedReply(
                f"the server sent a frame of {size} bytes. It speaks neither the protocol of "
                "Iggy 0.8 nor that of 0.9; check address, TLS and version"
            )
        return _bounded(size - self.header_bytes)

    def reply(self, header: bytes, body: bytes) -> Reply:
        """Return status and body; a server rejects a login by an eviction."""
        if header[60] == self._EVICTION:
            raise IggyRefused(self._eviction(header), header[255])
        if header[60] != self._REPLY:
            raise MalformedReply(f"the server sent a frame of the unknown kind {header[60]}")
        return Reply(int.from_bytes(header[216:220], "little"), body)

    def parse_topic(self, body: bytes) -> tuple[PartitionState, ...]:
        """Read a topic's header of 0.9 (two lists of options end it) and its partitions."""
        return parse_topic(body, bytes_before_sizes=8 + 1 + 8, options=2)

    def _register(self, credentials: bytes) -> bytes:
        body = self._prefix + credentials + bytes(4)  # an empty context
        return self._frame(self._REGISTER, 0, body, request=0, session=0)

    def _frame(
        self, operation: int, code: int, payload: bytes, *, request: int, session: int
    ) -> bytes:
        frame = bytearray(self.header_bytes)
        struct.pack_into("<I", frame, 48, self.header_bytes + len(payload))
        frame[60] = self._REQUEST
        frame[128:144] = self._client_id
        struct.pack_into("<QQQ", frame, 168, request, operation, session)
        struct.pack_into("<I", frame, 196, code)
        return bytes(frame) + payload

    @staticmethod
    def _eviction(header: bytes) -> str:
        reason = header[255]
        text = f"eviction {reason} ({_EVICTION_TEXTS.get(reason, 'reason unknown')})"
        newest, oldest = struct.unpack_from("<II", header, 144)
        if not newest:
            return text
        return f"{text}; it speaks protocol {_version(oldest)} to {_version(newest)}"


def is_plain_answer(first_bytes: bytes) -> bool:
    """Determine from 8 bytes which server answered a 0.9 ping: 0.8 reports an unknown command."""
    return first_bytes == b"\x03" + bytes(7)


def _bounded(size_bytes: int) -> int:
    if size_bytes > _LARGEST_REPLY_BYTES:
        raise MalformedReply(f"the server announced a reply of {size_bytes} bytes")
    return size_bytes


def _version(packed: int) -> str:
    return f"{packed >> 20}.{packed >> 10 & 1023}.{packed & 1023}"
