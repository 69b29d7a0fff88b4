"""Hold the state of an Iggy server and its answers: topics, groups, offsets; without frames."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

OK, UNKNOWN_COMMAND, NOT_LOGGED_IN, PARTITION_NOT_FOUND = 0, 3, 40, 3007
U64_MAX = 2**64 - 1
Answer = tuple[int, bytes]  # status, body


@dataclass
class FakePartition:
    """One partition; ``offset`` is that of the last message ever written, 0 if there is none."""

    messages: int = 0
    offset: int | None = None
    size_bytes: int = 0

    @property
    def current_offset(self) -> int:
        """Return the last message's offset as servers do: 0 for none as well."""
        return max(self.messages - 1, 0) if self.offset is None else self.offset


@dataclass
class FakeTopic:
    """A topic with its groups: group name -> partition -> last processed offset."""

    partitions: list[FakePartition]
    groups: dict[str, dict[int, int]] = field(default_factory=dict)
    members: dict[str, list[list[int]]] = field(default_factory=dict)
    created_us: int = 0
    partitions_created_us: int = 0
    derived_options: bytes = b""


@dataclass
class IggyState:
    """The state of the fake server; tests change it while the server runs."""

    version: str = "0.8"
    topics: dict[tuple[str, str], FakeTopic] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=lambda: {"iggy": "iggy"})
    tokens: set[str] = field(default_factory=set)
    refused_codes: dict[int, int] = field(default_factory=dict)  # code -> status
    port: int = 0

    def answer(self, code: int, payload: bytes) -> Answer:
        """Return status and body of one command of a connection that is logged in."""
        if code in self.refused_codes:
            return self.refused_codes[code], b""
        if code == 120:
            return self._offset(payload)
        bodies = {
            1: lambda _: b"",
            12: lambda _: self._cluster(),
            300: self._topic,
            600: self._group,
        }
        return (OK, bodies[code](payload)) if code in bodies else (UNKNOWN_COMMAND, b"")

    def _find(self, stream: str, topic: str) -> FakeTopic | None:
        """Return a topic by name; by ``#0`` the only topic of stream ``#number``."""
        for number, place in enumerate(self.topics):
            if place == (stream, topic) or (f"#{number}", "#0") == (stream, topic):
                return self.topics[place]
        return None

    def _offset(self, payload: bytes) -> Answer:
        rest = payload[1:]
        group, rest = _ident(rest)
        stream, rest = _ident(rest)
        topic_name, rest = _ident(rest)
        topic = self._find(stream, topic_name)
        has_partition, number = struct.unpack("<BI", rest)
        number = number if has_partition else 0
        if topic is None or group not in topic.groups:
            return OK, b""
        if number >= len(topic.partitions):
            return (PARTITION_NOT_FOUND if self.version == "0.9" else OK), b""
        stored = topic.groups[group].get(number)
        if stored is None:
            return OK, b""
        return OK, struct.pack("<IQQ", number, topic.partitions[number].current_offset, stored)

    def _topic(self, payload: bytes) -> bytes:
        stream, rest = _ident(payload)
        name, _ = _ident(rest)
        topic = self._find(stream, name)
        if topic is None:
            return b""
        parts = topic.partitions
        body = struct.pack("<IQIQBQ", 0, topic.created_us, len(parts), U64_MAX, 1, U64_MAX)
        if self.version == "0.8":
            body += b"\x01"  # replication factor
        size_bytes = sum(part.size_bytes for part in parts)
        body += struct.pack("<QQ", size_bytes, sum(part.messages for part in parts))
        body += struct.pack("<B", len(name)) + name.encode()
        if self.version == "0.9":
            options = topic.derived_options
            body += struct.pack("<II", 0, len(options)) + options
        for number, part in enumerate(parts):
            created_us = topic.partitions_created_us
            body += struct.pack("<IQI", number, created_us, 1)
            body += struct.pack("<QQQ", part.current_offset, part.size_bytes, part.messages)
        return body

    def _group(self, payload: bytes) -> bytes:
        stream, rest = _ident(payload)
        topic_name, rest = _ident(rest)
        group, _ = _ident(rest)
        topic = self._find(stream, topic_name)
        if topic is None or group not in topic.groups:
            return b""
        members = topic.members.get(group, [])
        body = struct.pack("<III", 0, len(topic.partitions), len(members))
        body += struct.pack("<B", len(group)) + group.encode()
        for number, owned in enumerate(members):
            body += struct.pack(f"<II{len(owned)}I", number, len(owned), *owned)
        return body

    def _cluster(self) -> bytes:
        """Name this server as the only node, as the client library asks after its login."""

        def text(value: str) -> bytes:
            return struct.pack("<I", len(value)) + value.encode()

        ports = struct.pack("<HHHH", self.port, 0, 0, 0)
        node = text("iggy-node") + text("127.0.0.1") + ports + b"\0\0"
        return text("single-node") + struct.pack("<I", 1) + node


def _ident(data: bytes) -> tuple[str, bytes]:
    """Return a name (or ``#number``) and the bytes behind it."""
    kind, size = data[0], data[1]
    value, rest = data[2 : 2 + size], data[2 + size :]
    return (f"#{int.from_bytes(value, 'little')}" if kind == 1 else value.decode()), rest
