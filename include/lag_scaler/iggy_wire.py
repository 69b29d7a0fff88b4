"""Apache Iggy's TCP protocol, both layouts of frames: no socket here.

Written down from exchanges recorded with a 0.8.0 and a 0.9.0-edge.5 server; the tests hold every
request and every reply against those bytes. Integers are little-endian. Servers up to 0.8 speak
``PlainLayout`` (8 bytes of header both ways), those of 0.9 ``ReplicaLayout`` (256 bytes, as their
replicas speak among themselves).

The client of PyPI (apache-iggy 0.9.0) is a second opinion in the tests only: it knows one layout,
waits for ever on a server of the other, needs a round trip for each partition, and a process that
ends while a call is under way dies of SIGABRT or SIGSEGV.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from pod_program.errors import NotReady

PING, GET_CONSUMER_OFFSET, GET_TOPIC, GET_CONSUMER_GROUP = 1, 120, 300, 600
_LOGIN_PASSWORD, _LOGIN_TOKEN = 38, 44
UNAUTHENTICATED, PARTITION_NOT_FOUND = 40, 3007
_GROUP_KIND = 2  # offsets are kept for single consumers (1) and for groups (2)
_LARGEST_OFFSET = 2**63 - 1
_LARGEST_REPLY_BYTES = 16 * 2**20
_STORED_OFFSET_BYTES = 20
_PARTITION = "<IQIQQQ"  # number, created at, segments, current offset, bytes, messages
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
    14: "the protocol version is not supported",
    15: "the login has no protocol version",
}


class MalformedReply(NotReady):
    """The bytes are not an Iggy server's, or the connection is out of step: it must be closed."""


class IggyRefused(NotReady):
    """The server answered with an error."""

    def __init__(self, text: str, status: int = 0) -> None:
        """Keep the server's own code beside the text."""
        super().__init__(f"the Iggy server rejected the request: {text}")
        self.status = status


class Reply(NamedTuple):
    """The answer to one request; an empty body means that there is no such thing."""

    status: int
    body: bytes

    def ok_body(self) -> bytes:
        """Return the body, or raise what the server said."""
        if self.status:
            text = _STATUS_TEXTS.get(self.status, "see the server's error codes")
            raise IggyRefused(f"status {self.status} ({text})", self.status)
        return self.body


class PartitionState(NamedTuple):
    """The state of a partition as reported; ``current_offset`` is also 0 if it is empty."""

    number: int
    current_offset: int  # of the last message ever written
    messages_count: int  # still kept


def offset_query(group: str, stream: str, topic: str, partition: int) -> bytes:
    """Return the payload that requests a group's stored offset in one partition."""
    place = idents(group, stream, topic)
    return bytes([_GROUP_KIND]) + place + b"\x01" + struct.pack("<I", partition)


def idents(*names: str) -> bytes:
    """Return the payload that names a stream, a topic of it, and a group of that.

    Each is kind, length and value: digits are a numeric id, anything else is a name.
    """
    return b"".join(
        struct.pack("<BBI", 1, 4, int(name)) if _is_number(name) else b"\x02" + counted(name)
        for name in names
    )


def is_identifier(name: str) -> bool:
    """Return whether ``idents`` can encode this name."""
    return int(name) < 2**32 if _is_number(name) else 1 <= len(name.encode()) <= 255


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def counted(text: str) -> bytes:
    """Return a text behind its length in one byte."""
    data = text.encode()
    return bytes([len(data)]) + data


def parse_stored_offset(body: bytes, partition: int) -> int | None:
    """Return the last message that the group has processed there; None if nothing is stored."""
    if not body:
        return None
    answered, _, stored = _unpacked("<IQQ", body)
    if answered != partition or len(body) != _STORED_OFFSET_BYTES:
        raise MalformedReply(f"asked for partition {partition}, the server answered for {answered}")
    return _offset(stored)


def _unpacked(fields: str, body: bytes, at: int = 0) -> tuple[int, ...]:
    """Return numbers from a place of the body on."""
    try:
        return struct.unpack_from(fields, body, at)
    except struct.error as error:
        raise MalformedReply(f"the server's reply is cut after {len(body)} bytes") from error


def _offset(value: int) -> int:
    """Return a u64 that must fit into 63 bits with one added."""
    if value >= _LARGEST_OFFSET:
        raise MalformedReply(f"the server sent {value} for an offset or a count")
    return value


class PlainLayout:
    """Frames of servers up to 0.8: length, code, payload; status, length, body."""

    version = "0.8"
    header_bytes = 8
    _before_sizes, _options = 8 + 1 + 8 + 1, 0  # a topic's header: it has a replication factor

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
        """Return how many bytes follow this header."""
        return _bounded(int.from_bytes(header[4:8], "little"))

    def reply(self, header: bytes, body: bytes) -> Reply:
        """Return the reply of a whole frame."""
        return Reply(int.from_bytes(header[:4], "little"), body)

    def parse_topic(self, body: bytes) -> tuple[PartitionState, ...]:
        """Return the topic's partitions by number; empty if there is no such topic."""
        if not body:
            return ()
        _, _, count = _unpacked("<IQI", body)  # id, created at, partitions
        at = 16 + self._before_sizes + 16  # expiry to largest size; bytes, messages
        at += 1 + _unpacked("<B", body, at)[0]  # name
        for _ in range(self._options):
            at += 4 + _unpacked("<I", body, at)[0]
        size = struct.calcsize(_PARTITION)
        if len(body) != at + count * size:
            raise MalformedReply(f"the server's reply of {len(body)} bytes is not a topic's")
        return tuple(
            PartitionState(number, _offset(current), _offset(messages))
            for number, _, _, current, _, messages in sorted(
                struct.iter_unpack(_PARTITION, body[at:])
            )
        )


class ReplicaLayout(PlainLayout):
    """Frames of 0.9 servers: 256 bytes of header with client, session and operation."""

    version = "0.9"
    header_bytes = 256
    _before_sizes, _options = 8 + 1 + 8, 2
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
        self._client_id, self._session = client_id, 0
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
        body = reply.ok_body()
        if _unpacked("<I", body)[0]:
            raise IggyRefused(f"login failed with error {_unpacked('<I', body, 8)[0]}")
        (self._session,) = _unpacked("<Q", body, 8)

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
        kind, reason = header[60], header[255]
        if kind == self._EVICTION:
            text = f"eviction {reason} ({_EVICTION_TEXTS.get(reason, 'reason unknown')})"
            newest, oldest = struct.unpack_from("<II", header, 144)
            if newest:
                text += f"; it speaks protocol {_version(oldest)} to {_version(newest)}"
            raise IggyRefused(text, reason)
        if kind != self._REPLY:
            raise MalformedReply(f"the server sent a frame of the unknown kind {kind}")
        return Reply(int.from_bytes(header[216:220], "little"), body)

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


def is_plain_answer(first_bytes: bytes) -> bool:
    """Determine from 8 bytes which server answered a 0.9 ping: 0.8 reports an unknown command."""
    return first_bytes == b"\x03" + bytes(7)


def _bounded(size_bytes: int) -> int:
    if size_bytes > _LARGEST_REPLY_BYTES:
        raise MalformedReply(f"the server announced a reply of {size_bytes} bytes")
    return size_bytes


def _version(packed: int) -> str:
    return f"{packed >> 20}.{packed >> 10 & 1023}.{packed & 1023}"
