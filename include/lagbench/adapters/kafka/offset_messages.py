"""Define the messages between a program and the process that reads Kafka's offsets for it.

Each message is four bytes of length, most significant first, and that much MessagePack.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from socket import SocketIO
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from lagbench.core.lag_scaler import GroupSample, GroupTopic

NUMBER_BYTES = 4
Message = TypeVar("Message")


class OpenCluster(msgspec.Struct, frozen=True):
    """The first message: librdkafka's settings, through a channel because they contain secrets."""

    settings: dict[str, object]
    timeout_seconds: float


class SampleWanted(msgspec.Struct, frozen=True):
    """A request for one batch: pairs of group and topic; ``at_ns`` is its instant."""

    at_ns: int
    groups: list[tuple[str, str]]


class _Sampled(msgspec.Struct, frozen=True, array_like=True):
    at_ns: int
    partitions: bytes
    end: bytes
    committed: bytes
    earliest: bytes | None
    error: str


class SampleTaken(msgspec.Struct, frozen=True):
    """One batch, in the order in which it was asked for."""

    samples: list[_Sampled]
    broker_requests: int


class NoAnswer(Exception):
    """The other side has ended, or has not answered in time."""


def packed_samples(
    wanted: Sequence[GroupTopic], found: Mapping[GroupTopic, GroupSample], broker_requests: int
) -> SampleTaken:
    """Return the samples as a message."""
    samples = [
        _Sampled(
            sample.at_ns,
            sample.partitions.tobytes(),
            sample.end.tobytes(),
            sample.committed.tobytes(),
            None if sample.earliest is None else sample.earliest.tobytes(),
            sample.error,
        )
        for sample in (found[item] for item in wanted)
    ]
    return SampleTaken(samples, broker_requests)


def unpacked_samples(
    wanted: Sequence[GroupTopic], message: SampleTaken
) -> dict[GroupTopic, GroupSample]:
    """Return the samples of a message."""
    return {
        item: GroupSample(
            sample.at_ns,
            np.frombuffer(sample.partitions, dtype=np.int32),
            _offsets(sample.end),
            _offsets(sample.committed),
            None if sample.earliest is None else _offsets(sample.earliest),
            sample.error,
        )
        for item, sample in zip(wanted, message.samples, strict=True)
    }


def send(channel: SocketIO, message: msgspec.Struct) -> None:
    """Write a message.

    :raises NoAnswer: the reader has ended.
    """
    body = msgspec.msgpack.encode(message)
    try:
        channel.write(len(body).to_bytes(NUMBER_BYTES, "big") + body)
        channel.flush()
    except (OSError, ValueError) as error:
        raise NoAnswer("the other side has ended") from error


def receive(
    channel: SocketIO, kind: type[Message], *, within_seconds: float | None = None
) -> Message:
    """Return the next message; ``channel`` must be unbuffered.

    :raises NoAnswer: the other side has ended, or the time limit has passed.
    """
    gives_up_at = None if within_seconds is None else time.monotonic() + within_seconds
    length = int.from_bytes(_read(channel, NUMBER_BYTES, gives_up_at), "big")
    return msgspec.msgpack.decode(_read(channel, length, gives_up_at), type=kind)


def _read(channel: SocketIO, size: int, gives_up_at: float | None) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        patience = None if gives_up_at is None else max(0.0, gives_up_at - time.monotonic())
        if not select.select([channel], [], [], patience)[0]:
            raise NoAnswer("no answer in time")
        part = channel.read(size)
        if not part:
            raise NoAnswer("the other side has ended")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _offsets(data: bytes) -> npt.NDArray[np.int64]:
    return np.frombuffer(data, dtype=np.int64)
