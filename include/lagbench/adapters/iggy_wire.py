"""The bytes of Apache Iggy's TCP protocol, both frame layouts, and nothing else: no socket here.

Two layouts that share nothing but the payloads: servers up to 0.8 (``PlainLayout``: 8 bytes of
header both ways) and those of 0.9 (``ReplicaLayout``: 256 bytes, as their replicas speak among
themselves). Written down from exchanges recorded with a 0.8.0 and a 0.9.0-edge.5 server; the
tests hold every request and every reply against those bytes. Integers are little-endian.

Why not the client of PyPI (apache-iggy 0.9.0), which the tests use as a second opinion: it knows
one layout only and waits for ever on a server of the other (no answer in 200 s); it sends a
request only after the last reply (10 reads gathered came in 10 sends), so that a sample would
cost a round trip per partition; it goes where the server says that it is, which need not be
where a Service or a tunnel has it; and a process that ends while a call is under way dies of
SIGABRT or SIGSEGV (3 of 6 ends). Three commands, all of them reads, do not need that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol

from lagbench.errors import NotReady

PING, GET_CONSUMER_OFFSET, GET_TOPIC, GET_CONSUMER_GROUP = 1, 120, 300, 600
_LOGIN_PASSWORD, _LOGIN_TOKEN = 38, 44
UNAUTHENTICATED, PARTITION_NOT_FOUND = 40, 3007
_GROUP_KIND = 2  # offsets are kept for single consumers (1) and for groups (2)
_LARGEST_REPLY_BYTES = 16 * 2**20
_LARGEST_OFFSET = 2**63 - 1
_STATUS_TEXTS = {
    3: "unknown command",
    20: "not found, or a wrong access token",
    UNAUTHENTICATED: "not logged in",
    41: "no permission",
    42: "wrong user or password",
    44: "not a valid password",
    PARTITION_NOT_FOUND: "no such partition",
}
_EVICTION_TEXTS = {
    9: "wrong user or password",
    10: "wrong access token",
    14: "the protocol version does not suit",
    15: "the login has no protocol version",
}


class MalformedReply(NotReady):
    """The bytes are not an Iggy server's, or the connection is out of step: it must be closed."""


class IggyRefused(NotReady):
    """The server answered with an error."""

    def __init__(self, text: str, status: int = 0) -> None:
        """Keep the server's own code beside the text."""
        super().__init__(f"the Iggy server refused: {text}")
        self.status = status


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request; an empty body means that there is no such thing."""

    status: int
    body: bytes

    def ok_body(self) -> bytes:
        """Return the body, or raise what the server said."""
        if self.status:
            text = _STATUS_TEXTS.get(self.status, "see the server's error codes")
            raise IggyRefused(f"status {self.status} ({text})", self.status)
        return self.body


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What a server says of a partition; ``current_offset`` is 0 in an empty one as well."""

    number: int
    current_offset: int  # of the last message ever written
    messages_count: int  # still kept


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The last message that a group has processed in one partition."""

    partition: int
    current_offset: int
    stored_offset: int


class FrameLayout(Protocol):
    """How one generation of servers packs requests and replies."""

    version: str
    header_bytes: int

    def login_by_password(self, username: str, password: str) -> bytes:
        """Return the frame that logs in with a password."""

    def login_by_token(self, token: str) -> bytes:
        """Return the frame that logs in with a personal access token."""

    def accept_login(self, reply: Reply) -> None:
        """Take from the reply to a login what later requests need; raise if it was refused."""

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
        return self.request(_LOGIN_PASSWORD, _name(username) + _name(password) + bytes(8))

    def login_by_token(self, token: str) -> bytes:
        """Return the frame that logs in with a personal access token."""
        return self.request(_LOGIN_TOKEN, _name(token))

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
        return _parse_topic(body, bytes_before_sizes=8 + 1 + 8 + 1, options=0)


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
        self._prefix = packed + _name(client_name) + _name(client_version)

    def login_by_password(self, username: str, password: str) -> bytes:
        """Return the frame that registers the client with a password."""
        return self._register(_name(username) + _name(password))

    def login_by_token(self, token: str) -> bytes:
        """Return the frame that registers the client with a personal access token."""
        return self._register(_name(token))

    def accept_login(self, reply: Reply) -> None:
        """Keep the session: result section (0 errors), user id, session, versions."""
        fields = _Fields(reply.ok_body())
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
        """Return status and body; an eviction is how the server refuses a login."""
        if header[60] == self._EVICTION:
            raise IggyRefused(self._eviction(header), header[255])
        if header[60] != self._REPLY:
            raise MalformedReply(f"the server sent a frame of the unknown kind {header[60]}")
        return Reply(int.from_bytes(header[216:220], "little"), body)

    def parse_topic(self, body: bytes) -> tuple[PartitionState, ...]:
        """Read a topic's header of 0.9 (two lists of options end it) and its partitions."""
        return _parse_topic(body, bytes_before_sizes=8 + 1 + 8, options=2)

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
    """Tell from 8 bytes what answered a 0.9 ping: a 0.8 server calls it an unknown command."""
    return first_bytes == b"\x03" + bytes(7)


def offset_query(group: str, stream: str, topic: str, partition: int) -> bytes:
    """Return the payload that asks for a group's stored offset in one partition."""
    place = ident(group) + ident(stream) + ident(topic)
    return bytes([_GROUP_KIND]) + place + b"\x01" + struct.pack("<I", partition)


def idents(*names: str) -> bytes:
    """Return the payload that names a stream, a topic of it, and a group of that."""
    return b"".join(ident(name) for name in names)


def ident(name: str) -> bytes:
    """Return kind, length and value: digits are a numeric id, anything else is a name."""
    if name.isascii() and name.isdigit():
        return struct.pack("<BBI", 1, 4, int(name))
    return b"\x02" + _name(name)


def is_identifier(name: str) -> bool:
    """Say whether ``ident`` can encode this name."""
    if name.isascii() and name.isdigit():
        return int(name) < 2**32
    return 1 <= len(name.encode()) <= 255


def parse_stored_offset(body: bytes) -> StoredOffset | None:
    """Return the group's offset in a partition; None if nothing is stored there."""
    if not body:
        return None
    fields = _Fields(body)
    stored = StoredOffset(fields.number(4), fields.offset(), fields.offset())
    fields.end()
    return stored


def _parse_topic(
    body: bytes, *, bytes_before_sizes: int, options: int
) -> tuple[PartitionState, ...]:
    if not body:
        return ()
    fields = _Fields(body)
    fields.skip(4 + 8)  # id, created at
    count = fields.number(4)
    fields.skip(bytes_before_sizes + 8 + 8)  # expiry to largest size; bytes, messages
    fields.skip(fields.number(1))  # name
    for _ in range(options):
        fields.skip(fields.number(4))
    partitions = []
    for _ in range(count):
        number = fields.number(4)
        fields.skip(8 + 4)  # created at, segments
        current_offset = fields.offset()
        fields.skip(8)  # bytes
        partitions.append(PartitionState(number, current_offset, fields.offset()))
    fields.end()
    return tuple(sorted(partitions, key=lambda partition: partition.number))


class _Fields:
    """Reads numbers one after the other; running over the end is an error."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def skip(self, size_bytes: int) -> None:
        self._at += size_bytes
        if self._at > len(self._data):
            raise MalformedReply(f"the server's reply ends after {len(self._data)} bytes, too soon")

    def number(self, size_bytes: int) -> int:
        start = self._at
        self.skip(size_bytes)
        return int.from_bytes(self._data[start : self._at], "little")

    def offset(self) -> int:
        """Return a u64 that must fit into 63 bits with one added."""
        value = self.number(8)
        if value >= _LARGEST_OFFSET:
            raise MalformedReply(f"the server sent {value} for an offset or a count")
        return value

    def end(self) -> None:
        if self._at != len(self._data):
            raise MalformedReply(f"the server's reply has {len(self._data) - self._at} bytes more")


def _name(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _bounded(size_bytes: int) -> int:
    if size_bytes > _LARGEST_REPLY_BYTES:
        raise MalformedReply(f"the server announced a reply of {size_bytes} bytes")
    return size_bytes


def _version(packed: int) -> str:
    return f"{packed >> 20}.{packed >> 10 & 1023}.{packed & 1023}"
