"""The state file: the watched objects and their windows, so that a restart continues with them.

It is a file and not a compacted topic. The scaler must report an unreachable broker, so it must not
need that broker to start; it watches several clusters, none of which is its own, and Iggy servers,
which have no compacted topics; and reading offsets needs no right to write anything. On Kubernetes
the file belongs on a volume claim (an emptyDir outlives a container, not a pod), as
k8s/base/lag-scaler has it. Losing it costs one sustain time.

An object whose metadata carries a secret (KEDA has put it there for a FromEnv key) is left out:
no secret is ever written. Its window is kept and waits for KEDA's next call.

A window is saved as bytes, so that a restart does not reset the sustain clock: the samples, every
rule and its state, no address and no secret except the window's identity. Offsets are stored as
differences from sample to sample and deflated: 30 samples of 24 partitions take about 2 KB.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
from pydantic import ValidationError

from lag_scaler.keda_values import NS_PER_SECOND
from lag_scaler.metadata import FROM_ENV, SECRET_KEYS
from lag_scaler.offsets import Offsets
from lag_scaler.rule import LagRule
from lag_scaler.window import GroupWindow, Hold
from pod_program.errors import NotReady

FORMAT = "lagbench-lag-scaler/2"


class SavedObject(msgspec.Struct, frozen=True):
    """One object as KEDA names it."""

    namespace: str
    name: str
    metadata: dict[str, str]
    sent_change: float = 0.0


class SavedState(msgspec.Struct, frozen=True):
    """Everything; ``windows`` by identity (cluster, group, topic, interval)."""

    saved_at_ns: int
    objects: list[SavedObject]
    windows: dict[str, bytes]
    format: str = FORMAT


def savable(metadata_keys: Iterable[str]) -> bool:
    """Return whether an object's metadata holds no secret."""
    return all(key.removesuffix(FROM_ENV) not in SECRET_KEYS for key in metadata_keys)


def read_state(path: Path) -> SavedState | None:
    """Return the last state; None when there is none yet.

    :raises NotReady: there is one that cannot be read, or of something else.
    """
    try:
        state = msgspec.msgpack.decode(path.read_bytes(), type=SavedState)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotReady(f"cannot read the state file {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise NotReady(f"the state file cannot be used: {error}") from error
    if state.format != FORMAT:
        raise NotReady(f"the state file cannot be used: its format is {state.format!r}")
    return state


def write_state(path: Path, state: SavedState) -> None:
    """Replace the state; on the disk when this returns, readable by its owner only.

    It is written beside the old one and renamed: a crash leaves the old or the new state.

    :raises NotReady: it could not be written; the last state is still there.
    """
    beside = path.with_name(f"{path.name}.new")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.msgpack.encode(state))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some file systems cannot sync one
            os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise NotReady(f"cannot write the state file {path}: {error.strerror}") from error


class SnapshotDiscarded(ValueError):
    """A snapshot cannot be trusted; the message gives the reason. The window then starts empty."""


class _SavedRule(msgspec.Struct, array_like=True):
    rule: str
    started_at: list[int]
    early_since: list[int]
    hold: Hold


class _SavedWindow(msgspec.Struct, array_like=True):
    partitions: list[int]
    log_start: list[int]
    times: list[int]
    end: bytes
    committed: bytes
    rules: list[_SavedRule]


def save_window(window: GroupWindow) -> bytes:
    """Return the window's samples and rules as bytes, with a checksum."""
    history = window.history
    rules = [
        _SavedRule(
            rule.model_dump_json(),
            watched.started_at.tolist(),
            watched.early_since.tolist(),
            watched.hold,
        )
        for rule, watched in window.watched.items()
    ]
    saved = _SavedWindow(
        history.partitions.tolist(),
        history.log_start.tolist(),
        history.times.tolist(),
        _differences(history.end),
        _differences(history.committed),
        rules,
    )
    return zlib.compress(msgspec.msgpack.encode(saved))


def restore_window(data: bytes, *, interval_seconds: float, now_ns: int) -> GroupWindow:
    """Return the window of a snapshot, with all its rules watched again.

    :raises SnapshotDiscarded: it cannot be trusted. A newest sample older than the longest allowed
        gap is too old: the next sample would end every stretch anyway. One from the future means
        that the clock was set back.
    """
    window = GroupWindow(interval_seconds)
    try:
        saved = msgspec.msgpack.decode(zlib.decompress(data), type=_SavedWindow)
        rules = [LagRule.model_validate_json(kept.rule) for kept in saved.rules]
        window.history.depth = max((rule.window_size for rule in rules), default=2)
        if saved.times:
            _check_age(saved.times[-1], now_ns, window.max_gap_ns)
            width = len(saved.partitions)
            window.history.load(
                np.array(saved.partitions, dtype=np.int32),
                np.array(saved.log_start, dtype=np.int64),
                np.array(saved.times, dtype=np.int64),
                _summed(saved.end, width),
                _summed(saved.committed, width),
            )
        for rule, kept in zip(rules, saved.rules, strict=True):
            watched = window.watch(rule)
            watched.started_at = np.array(kept.started_at, dtype=np.int64)
            watched.early_since = np.array(kept.early_since, dtype=np.int64)
            watched.hold = kept.hold
            if saved.times:
                watched.resume(window.history)
    except SnapshotDiscarded:
        raise
    except (zlib.error, msgspec.DecodeError, ValidationError, ValueError) as error:
        raise SnapshotDiscarded(f"it cannot be read: {error}") from error
    return window


def _check_age(newest_at_ns: int, now_ns: int, max_gap_ns: int) -> None:
    age_ns = now_ns - newest_at_ns
    if age_ns < -max_gap_ns:
        raise SnapshotDiscarded("its newest sample lies in the future: the clock was set back")
    if age_ns > max_gap_ns:
        raise SnapshotDiscarded(
            f"its newest sample is {age_ns / NS_PER_SECOND:.1f} s old, more than the "
            f"{max_gap_ns / NS_PER_SECOND:g} s of a gap that is allowed"
        )


def _differences(rows: Offsets) -> bytes:
    """Return the first row and then each row's difference from the one before."""
    return np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1])).astype("<i8").tobytes()


def _summed(data: bytes, width: int) -> Offsets:
    differences = np.frombuffer(data, dtype="<i8").reshape(-1, width)
    rows: Offsets = np.cumsum(differences, axis=0, dtype=np.int64)
    return rows
