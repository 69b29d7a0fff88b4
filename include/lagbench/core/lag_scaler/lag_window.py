"""The samples of one group and topic at one sampling interval, and all their rules.

A window is saved as bytes, so that a restart does not reset the sustain clock: the samples, every
rule and its state, no address and no secret except the window's identity. Offsets are stored as
differences from sample to sample and deflated: 30 samples of 24 partitions take about 2 KB.
"""

from __future__ import annotations

import zlib

import msgspec
import numpy as np
from pydantic import ValidationError

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.lag_scaler.lag_rule import LagRule, max_gap_ns
from lagbench.core.lag_scaler.lag_source import GroupSample, Offsets
from lagbench.core.lag_scaler.offset_history import OffsetHistory
from lagbench.core.lag_scaler.watched_rule import Hold, WatchedRule

SNAPSHOT_VERSION = 2


class GroupWindow:
    """Objects with equal rules share one ``WatchedRule``; all rules share the samples.

    Not thread-safe. ``identity`` names cluster, group, topic and interval, without secrets: a
    snapshot is restored only into the window that it was taken from.
    """

    def __init__(self, identity: str, interval_seconds: float) -> None:
        """Start without samples and rules."""
        self.identity, self.interval_seconds = identity, interval_seconds
        self.max_gap_ns = max_gap_ns(interval_seconds)
        self.history = OffsetHistory(depth=2)
        self.watched: dict[LagRule, WatchedRule] = {}
        self._trouble = ""

    @property
    def rules(self) -> tuple[LagRule, ...]:
        """Return the rules watched, those of a restored snapshot included."""
        return tuple(self.watched)

    @property
    def newest_at_ns(self) -> int | None:
        """Return the instant of the newest good sample."""
        return self.history.newest_at_ns

    def last_trouble(self) -> str:
        """Return why the last sample was not added; empty when it was."""
        return self._trouble

    def watch(self, rule: LagRule) -> WatchedRule:
        """Return the evaluation of ``rule``; a new one starts from the kept samples."""
        if rule.sampling_interval_seconds != self.interval_seconds:
            raise ValueError(
                f"a rule sampled every {rule.sampling_interval_seconds} s cannot look at a window "
                f"of {self.interval_seconds} s"
            )
        if rule not in self.watched:
            self.history.set_depth(max(self.history.depth, rule.window_size))
            self.watched[rule] = WatchedRule(rule, self)
            self.watched[rule].begin(self.history)
        return self.watched[rule]

    def forget(self, rule: LagRule) -> None:
        """Drop a rule that is no longer used; an unknown one is not an error."""
        self.watched.pop(rule, None)
        self.history.set_depth(max((other.window_size for other in self.watched), default=2))

    def add(self, sample: GroupSample) -> bool:
        """Add a sample; False, with the reason in ``last_trouble``, if it is unusable.

        A failed or malformed sample changes nothing: it is a gap. A sample that is not newer than
        the last one changes nothing either. If it is older by more than the longest gap, the clock
        was set back, and the window starts again with it.
        """
        self._trouble = sample.error or _malformed(sample)
        if self._trouble:
            return False
        newest = self.newest_at_ns
        if newest is not None and sample.at_ns <= newest:
            if newest - sample.at_ns <= self.max_gap_ns:
                self._trouble = "a sample came that is not newer than the last one"
                return False
            self.history.clear()
        self.history.append(sample)
        for watched in self.watched.values():
            watched.take(self.history)
        return True


def _malformed(sample: GroupSample) -> str:
    count = sample.partitions.size
    earliest = sample.end if sample.earliest is None else sample.earliest
    if not count:
        return "the topic has no partition"
    if not sample.end.size == sample.committed.size == earliest.size == count:
        return "the sample's arrays differ in length"
    if (np.diff(sample.partitions) <= 0).any():
        return "the sample's partitions are not in ascending order"
    if (sample.end < 0).any():
        missing = sample.partitions[sample.end < 0].tolist()
        return f"the end offset of partition {missing[0]} is unknown"
    return ""


class SnapshotDiscarded(ValueError):
    """A snapshot cannot be trusted; the message gives the reason. The window then starts empty."""


class _SavedRule(msgspec.Struct, array_like=True):
    rule: str
    started_at: list[int]
    early_since: list[int]
    hold: Hold


class _SavedWindow(msgspec.Struct, array_like=True):
    version: int
    identity: str
    interval_seconds: float
    partitions: list[int]
    log_start: list[int]
    times: list[int]
    end: bytes
    committed: bytes
    rules: list[_SavedRule]


def save_window(window: GroupWindow) -> bytes:
    """Return the window's samples and rules as bytes."""
    history = window.history
    saved = _SavedWindow(
        SNAPSHOT_VERSION,
        window.identity,
        window.interval_seconds,
        history.partitions.tolist(),
        history.log_start.tolist(),
        history.times().tolist(),
        _differences(history.end()),
        _differences(history.committed()),
        [
            _SavedRule(
                rule.model_dump_json(),
                watched.started_at.tolist(),
                watched.early_since.tolist(),
                watched.hold,
            )
            for rule, watched in window.watched.items()
        ],
    )
    return zlib.compress(msgspec.msgpack.encode(saved))


def restore_window(
    data: bytes, *, identity: str, interval_seconds: float, now_ns: int
) -> GroupWindow:
    """Return the window of a snapshot, with all its rules watched again.

    :raises SnapshotDiscarded: it is not one of this window, or cannot be trusted. A newest sample
        older than the longest allowed gap is too old: the next sample would end every stretch
        anyway. One from the future means that the clock was set back.
    """
    try:
        saved = msgspec.msgpack.decode(zlib.decompress(data), type=_SavedWindow)
        if (saved.version, saved.identity, saved.interval_seconds) != (
            SNAPSHOT_VERSION,
            identity,
            interval_seconds,
        ):
            raise SnapshotDiscarded(
                f"it is one of {saved.identity!r}, version {saved.version}, not of {identity!r}"
            )
        window = GroupWindow(identity, interval_seconds)
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
    except (zlib.error, msgspec.DecodeError, ValidationError, ValueError) as error:
        if isinstance(error, SnapshotDiscarded):
            raise
        raise SnapshotDiscarded(f"it cannot be read: {error}") from error
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


def _differences(rows: Offsets) -> bytes:
    """Return the first row and then each row's difference from the one before."""
    return np.diff(rows, axis=0, prepend=np.zeros_like(rows[:1])).astype("<i8").tobytes()


def _summed(data: bytes, width: int) -> Offsets:
    differences = np.frombuffer(data, dtype="<i8").reshape(-1, width)
    rows: Offsets = np.cumsum(differences, axis=0, dtype=np.int64)
    return rows
