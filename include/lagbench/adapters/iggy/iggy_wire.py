"""Requests and replies of Apache Iggy's TCP protocol without their frames: no socket here.

Written down from exchanges recorded with a 0.8.0 and a 0.9.0-edge.5 server; the tests hold every
request and every reply against those bytes. Integers are little-endian.

Why not the client of PyPI (apache-iggy 0.9.0), which the tests use as a second opinion: it knows
one layout of frames only and waits for ever on a server of the other (no answer in 200 s); it
sends a request only after the last reply (10 reads gathered came in 10 sends), so that a sample
would cost a round trip per partition; it goes where the server says that it is, which need not be
where a Service or a tunnel has it; and a process that ends while a call is under way dies of
SIGABRT or SIGSEGV (3 of 6 ends). Three commands, all of them reads, do not need that.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from lagbench.errors import NotReady

PING, GET_CONSUMER_OFFSET, GET_TOPIC, GET_CONSUMER_GROUP = 1, 120, 300, 600
UNAUTHENTICATED, PARTITION_NOT_FOUND = 40, 3007
_GROUP_KIND = 2  # offsets are kept for single consumers (1) and for groups (2)
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


class MalformedReply(NotReady):
    """The bytes are not an Iggy server's, or the connection is out of step: it must be closed."""


class IggyRefused(NotReady):
    """The server answered with an error."""

    def __init__(self, text: str, status: int = 0) -> None:
        """Keep the server's own code beside the text."""
        super().__init__(f"the Iggy server rejected the request: {text}")
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
    """The state of a partition as reported; ``current_offset`` is also 0 if it is empty."""

    number: int
    current_offset: int  # of the last message ever written
    messages_count: int  # still kept


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The last message that a group has processed in one partition."""

    partition: int
    current_offset: int
    stored_offset: int


def offset_query(group: str, stream: str, topic: str, partition: int) -> bytes:
    """Return the payload that requests a group's stored offset in one partition."""
    place = ident(group) + ident(stream) + ident(topic)
    return bytes([_GROUP_KIND]) + place + b"\x01" + struct.pack("<I", partition)


def idents(*names: str) -> bytes:
    """Return the payload that names a stream, a topic of it, and a group of that."""
    return b"".join(ident(name) for name in names)


def ident(name: str) -> bytes:
    """Return kind, length and value: digits are a numeric id, anything else is a name."""
    if name.isascii() and name.isdigit():
        return struct.pack("<BBI", 1, 4, int(name))
    return b"\x02" + counted(name)


def is_identifier(name: str) -> bool:
    """Return whether ``ident`` can encode this name."""
    if name.isascii() and name.isdigit():
        return int(name) < 2**32
    return 1 <= len(name.encode()) <= 255


def parse_stored_offset(body: bytes) -> StoredOffset | None:
    """Return the group's offset in a partition; None if nothing is stored there."""
    if not body:
        return None
    fields = Fields(body)
    stored = StoredOffset(fields.number(4), fields.offset(), fields.offset())
    fields.end()
    return stored


def parse_topic(
    body: bytes, *, bytes_before_sizes: int, options: int
) -> tuple[PartitionState, ...]:
    """Return a topic's partitions by number; the two layouts differ in what stands before them."""
    if not body:
        return ()
    fields = Fields(body)
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


class Fields:
    """Reads numbers one after the other; running over the end is an error."""

    def __init__(self, data: bytes) -> None:
        """Begin at the first byte."""
        self._data, self._at = data, 0

    def skip(self, size_bytes: int) -> None:
        """Pass over bytes that say nothing here."""
        self._at += size_bytes
        if self._at > len(self._data):
            raise MalformedReply(
                f"the server's reply ends after {len(self._data)} bytes: it is truncated"
            )

    def number(self, size_bytes: int) -> int:
        """Return an unsigned number."""
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
        """Reject remaining bytes."""
        if self._at != len(self._data):
            raise MalformedReply(f"the server's reply has {len(self._data) - self._at} bytes more")


def counted(text: str) -> bytes:
    """Return a text behind its length in one byte."""
    data = text.encode()
    return bytes([len(data)]) + data
