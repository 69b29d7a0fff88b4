"""Encode the state file: the watched objects and their windows.

An object whose metadata carries a secret (KEDA has put it there for a FromEnv key) is left out:
no secret is ever written. Its window is kept and waits for KEDA's next call.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import structlog

from lagbench.core.lag_scaler import (
    FROM_ENV,
    SECRET_KEYS,
    GroupWindow,
    SnapshotDiscarded,
    SourceAddress,
    restore_window,
)
from lagbench.errors import NotReady
from lagbench.programs.lag_scaler.feed import FeedKey

FORMAT = "lagbench-lag-scaler/1"
EARLIER_FORMAT = "lagbench-external-scaler/1"  # the same content
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class SavedObject(msgspec.Struct, frozen=True):
    """One object as KEDA names it."""

    namespace: str
    name: str
    metadata: dict[str, str]


class SavedState(msgspec.Struct, frozen=True):
    """Everything; ``windows`` by identity (cluster, group, topic, interval)."""

    saved_at_ns: int
    objects: list[SavedObject]
    windows: dict[str, bytes]
    format: str = FORMAT


def encode_state(state: SavedState) -> bytes:
    """Return the state as bytes."""
    return msgspec.msgpack.encode(state)


def decode_state(data: bytes) -> SavedState:
    """Return the state from bytes.

    :raises NotReady: they are something else, or of another version.
    """
    try:
        state = msgspec.msgpack.decode(data, type=SavedState)
    except msgspec.DecodeError as error:
        raise NotReady(f"the state file cannot be used: {error}") from error
    if state.format not in (FORMAT, EARLIER_FORMAT):
        raise NotReady(f"the state file cannot be used: its format is {state.format!r}")
    return state


def savable(metadata_keys: Iterable[str]) -> bool:
    """Return whether an object's metadata holds no secret."""
    return all(key.removesuffix(FROM_ENV) not in SECRET_KEYS for key in metadata_keys)


def window_identity(address: SourceAddress, key: FeedKey) -> str:
    """Return what names a window in the state file."""
    group, topic = key.group_topic.group, key.group_topic.topic
    return f"{address.name} | {topic} | {group} | {key.interval_seconds:g} s"


def restored_window(
    data: bytes | None, identity: str, interval_seconds: float, now_ns: int
) -> GroupWindow:
    """Return the window as it was saved, or an empty one if that is not to be had."""
    if data is not None:
        try:
            return restore_window(
                data, identity=identity, interval_seconds=interval_seconds, now_ns=now_ns
            )
        except SnapshotDiscarded as reason:
            _log.warning("a saved window is not used", window=identity, why=str(reason))
    return GroupWindow(identity, interval_seconds)
