"""Save and restore a window as bytes, so that a restart does not reset the sustain clock.

A snapshot holds the samples, every rule and its state. It holds no address and no secret except the
window's identity. Offsets are stored as differences from sample to sample and deflated: 30 samples
of 24 partitions take about 2 KB. A checksum protects the whole snapshot.
"""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.lag_scaler.group_reading import view_key
from lagbench.core.lag_scaler.hold import Queue
from lagbench.core.lag_scaler.rule import WatchedRule
from lagbench.core.lag_scaler.rule_parameters import LagRule
from lagbench.core.lag_scaler.window import GroupWindow

SNAPSHOT_VERSION = 1
_MAGIC = b"lagwin"
_HEADER_BYTES = len(_MAGIC) + 1 + 4
# More than any window needs (2,000 samples of 2,400 partitions are 77 MB of offsets).
_MOST_BYTES = 200_000_000


class SnapshotDiscarded(ValueError):
    """A snapshot cannot be trusted; the message gives the reason. The window then starts empty."""


class _SavedHold(msgspec.Struct, array_like=True):
    lowest: list[tuple[int, float]]
    highest: list[tuple[int, float]]
    inactive_at_ns: int | None
    active_at_ns: int | None
    served: float
    is_active: bool


class _SavedRule(msgspec.Struct, array_like=True):
    rule: str
    started_at: bytes
    early_since: bytes | None
    hold: _SavedHold | None


class _SavedWindow(msgspec.Struct, array_like=True):
    identity: str
    interval_seconds: float
    times: bytes
    partitions: bytes
    log_start: bytes
    end: bytes
    committed: bytes
    rules: list[_SavedRule]


def save_window(window: GroupWindow) -> bytes:
    """Return the window's samples and rules as bytes."""
    history = window.history
    saved = _SavedWindow(
        identity=window.identity,
        interval_seconds=window.interval_seconds,
        times=_differences(history.times()),
        partitions=history.partitions.astype("<i4").tobytes(),
        log_start=history.log_start.astype("<i8").tobytes(),
        end=_differences(history.end()),
        committed=_differences(history.committed()),
        rules=[
            _saved_rule(watched, view.stretches.started_at[row])
            for view in window.views.values()
            for row, watched in enumerate(view.watched)
        ],
    )
    body = zlib.compress(msgspec.msgpack.encode(saved), 1)
    head = _MAGIC + bytes([SNAPSHOT_VERSION])
    return head + zlib.crc32(body).to_bytes(4, "little") + body


def restore_window(
    data: bytes, *, identity: str, interval_seconds: float, now_ns: int
) -> GroupWindow:
    """Return the window that was saved; ``SnapshotDiscarded`` when it cannot be trusted.

    A newest sample older than the longest allowed gap is too old: the next sample would end every
    stretch anyway. One from the future means that the clock was set back.
    """
    saved = _decoded(data)
    if saved.identity != identity or saved.interval_seconds != interval_seconds:
        raise SnapshotDiscarded(f"it is a snapshot of {saved.identity!r}, not of {identity!r}")
    try:
        return _rebuilt(saved, now_ns)
    except (ValueError, TypeError, ValidationError) as error:
        if isinstance(error, SnapshotDiscarded):
            raise
        raise SnapshotDiscarded(f"its contents are inconsistent: {error}") from error


def _decoded(data: bytes) -> _SavedWindow:
    if len(data) < _HEADER_BYTES or not data.startswith(_MAGIC):
        raise SnapshotDiscarded("it is not a snapshot of a lag window")
    version = data[len(_MAGIC)]
    if version != SNAPSHOT_VERSION:
        raise SnapshotDiscarded(f"its version is {version}, this program reads {SNAPSHOT_VERSION}")
    body = data[_HEADER_BYTES:]
    if zlib.crc32(body).to_bytes(4, "little") != data[len(_MAGIC) + 1 : _HEADER_BYTES]:
        raise SnapshotDiscarded("its checksum is wrong: it was cut short or changed")
    try:
        inflater = zlib.decompressobj()
        packed = inflater.decompress(body, _MOST_BYTES)
        return msgspec.msgpack.decode(packed, type=_SavedWindow)
    except (zlib.error, msgspec.DecodeError) as error:
        raise SnapshotDiscarded(f"it cannot be read: {error}") from error


def _rebuilt(saved: _SavedWindow, now_ns: int) -> GroupWindow:
    window = GroupWindow(saved.identity, saved.interval_seconds)
    times = _summed(saved.times, 1)[:, 0]
    partitions = np.frombuffer(saved.partitions, dtype="<i4").astype(np.int32)
    if times.size:
        _check_age(int(times[-1]), now_ns, window.max_gap_ns)
    if (np.diff(times) <= 0).any() or (np.diff(partitions) <= 0).any():
        raise SnapshotDiscarded("its samples or partitions are not in ascending order")
    end = _summed(saved.end, partitions.size)
    committed = _summed(saved.committed, partitions.size)
    log_start = np.frombuffer(saved.log_start, dtype="<i8").astype(np.int64)
    if not len(end) == len(committed) == times.size or log_start.size != partitions.size:
        raise SnapshotDiscarded("its arrays differ in length")
    # The rules first: a rule watched before there is a sample begins without a decision.
    rules = [LagRule.model_validate_json(one.rule) for one in saved.rules]
    watched = [window.watch(rule) for rule in rules]
    window.history.load(partitions, log_start, times.copy(), end, committed)
    if not times.size:
        return window
    for view in window.views.values():
        view.resume(window.history)
    for rule, one, kept in zip(rules, watched, saved.rules, strict=True):
        _put_back(window, rule, one, kept)
    for view in window.views.values():
        view.resume(window.history)
    return window


def _check_age(newest_at_ns: int, now_ns: int, max_gap_ns: int) -> None:
    age_ns = now_ns - newest_at_ns
    if age_ns > max_gap_ns:
        raise SnapshotDiscarded(
            f"its newest sample is {age_ns / NS_PER_SECOND:.1f} s old, more than the "
            f"{max_gap_ns / NS_PER_SECOND:g} s of a gap that is allowed"
        )
    if age_ns < -max_gap_ns:
        raise SnapshotDiscarded("its newest sample lies in the future: the clock was set back")


def _saved_rule(watched: WatchedRule, started_at: npt.NDArray[np.int64]) -> _SavedRule:
    hold, early = watched.hold, watched.early_since
    return _SavedRule(
        rule=watched.rule.model_dump_json(),
        started_at=started_at.astype("<i8").tobytes(),
        early_since=None if early is None else early.astype("<i8").tobytes(),
        hold=None
        if hold is None
        else _SavedHold(
            list(hold.lowest),
            list(hold.highest),
            hold.inactive_at_ns,
            hold.active_at_ns,
            hold.served,
            hold.is_active,
        ),
    )


def _put_back(window: GroupWindow, rule: LagRule, watched: WatchedRule, kept: _SavedRule) -> None:
    view = window.views[view_key(rule)]
    row = view.stretches.started_at[view.watched.index(watched)]
    started_at = np.frombuffer(kept.started_at, dtype="<i8")
    if started_at.size != row.size:
        raise SnapshotDiscarded("a rule's stretches do not match the partitions")
    row[:] = started_at
    if kept.early_since is not None:
        early_since = np.frombuffer(kept.early_since, dtype="<i8")
        if early_since.size != row.size:
            raise SnapshotDiscarded("a rule's early stretches do not match the partitions")
        watched.early_since = early_since.astype(np.int64)
    if kept.hold is not None and watched.hold is not None:
        hold = watched.hold
        hold.lowest, hold.highest = Queue(kept.hold.lowest), Queue(kept.hold.highest)
        hold.inactive_at_ns = kept.hold.inactive_at_ns
        hold.active_at_ns = kept.hold.active_at_ns
        hold.served, hold.is_active = kept.hold.served, kept.hold.is_active


def _differences(rows: npt.NDArray[np.int64]) -> bytes:
    """Return the first row and then each row's difference from the one before."""
    return np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1])).astype("<i8").tobytes()


def _summed(data: bytes, width: int) -> npt.NDArray[np.int64]:
    if not width:
        return np.empty((0, 0), dtype=np.int64)
    differences = np.frombuffer(data, dtype="<i8").reshape(-1, width)
    rows: npt.NDArray[np.int64] = np.cumsum(differences, axis=0, dtype=np.int64)
    return rows
