"""Advance all rules that read a window's offsets in the same way, sample by sample."""

from __future__ import annotations

import numpy as np

from lagbench.core.lag_scaler.group_reading import GroupReading, ViewKey, threshold_in_values
from lagbench.core.lag_scaler.lag_source import PartitionIds
from lagbench.core.lag_scaler.offset_history import Columns, OffsetHistory, columns_of
from lagbench.core.lag_scaler.rule import Trouble, WatchedRule
from lagbench.core.lag_scaler.rule_parameters import LagRule
from lagbench.core.lag_scaler.stretches import NO_STRETCH, Stretches, trailing_starts

_LISTED_PARTITIONS = 5


class RuleView:
    """Rows of ``stretches`` and entries of ``watched`` belong together."""

    def __init__(self, key: ViewKey, max_gap_ns: int, trouble: Trouble) -> None:
        """Start without a rule."""
        self.watched: list[WatchedRule] = []
        self.stretches = Stretches(0)
        self._key = key
        self._max_gap_ns = max_gap_ns
        self._window_trouble = trouble
        self._trouble = ""
        self._at_ns: int | None = None
        self._all: PartitionIds | None = None
        self._kept: PartitionIds = np.empty(0, dtype=np.int32)
        self._columns: Columns | slice = slice(None)

    def last_trouble(self) -> str:
        """Return the problem with this reading of the samples, else with the samples."""
        return self._trouble or self._window_trouble.last_trouble()

    def watch(self, rule: LagRule, history: OffsetHistory) -> WatchedRule:
        """Add a rule; the samples kept so far count for its stretch."""
        watched = WatchedRule(rule, self)
        threshold = threshold_in_values(rule)
        self.watched.append(watched)
        reading = self._read(history) if len(history) else None
        if reading is None:
            width = self.stretches.started_at.shape[1]
            self.stretches.add_row(threshold, np.full(width, NO_STRETCH, dtype=np.int64))
            return watched
        self._at_ns = reading.figures.at_ns
        starts = trailing_starts(history.times(), reading.all_values(), threshold, self._max_gap_ns)
        self.stretches.add_row(threshold, starts)
        self._settle(reading, [watched], is_new=True)
        return watched

    def drop(self, watched: WatchedRule) -> None:
        """Forget a rule."""
        row = self.watched.index(watched)
        del self.watched[row]
        self.stretches.drop_row(row)

    def advance(self, history: OffsetHistory) -> None:
        """Add the newest sample of ``history``; one older than the last ends every stretch."""
        reading = self._read(history)
        if reading is None:
            return
        at_ns = reading.figures.at_ns
        last = self._at_ns
        is_continuous = last is not None and 0 < at_ns - last <= self._max_gap_ns
        if last is not None and at_ns < last:
            for one in self.watched:
                one.clear_hold()
        self._at_ns = at_ns
        self.stretches.advance(at_ns, reading.values, is_continuous=is_continuous)
        self._settle(reading, self.watched, is_new=True)

    def resume(self, history: OffsetHistory) -> None:
        """Decide again on the newest sample after stretches and holds were restored."""
        reading = self._read(history)
        if reading is not None:
            self._at_ns = reading.figures.at_ns
            self._settle(reading, self.watched, is_new=False)

    def _settle(self, reading: GroupReading, watched: list[WatchedRule], *, is_new: bool) -> None:
        starts, columns = self.stretches.oldest()
        first = len(starts) - len(watched)
        for row, one in enumerate(watched, first):
            oldest = (starts[row], columns[row])
            one.settle(reading, self.stretches.started_at[row], oldest, is_new=is_new)

    def _read(self, history: OffsetHistory) -> GroupReading | None:
        """Return the reading of the newest sample; if None, ``last_trouble`` has the reason."""
        self._align(history)
        self._trouble = ""
        if not self._kept.size:
            self._trouble = "no partition of the topic is in partitionLimitation"
            if self._key.reading.limitation is None:
                self._trouble = "the topic has no partition"
            return None
        reading = GroupReading(history, self._key, self._columns, self._kept)
        unknown = reading.unknown_partitions
        if not unknown:
            return reading
        listed = ", ".join(map(str, unknown[:_LISTED_PARTITIONS]))
        more = ", ..." if len(unknown) > _LISTED_PARTITIONS else ""
        self._trouble = (
            f"no commit and no known log start for partition {listed}{more}, to be read from "
            "the earliest record"
        )
        return None

    def _align(self, history: OffsetHistory) -> None:
        """Apply a change of the topic's partitions; stretches of those that stay continue."""
        if self._all is history.partitions:
            return
        self._all = history.partitions
        self._columns = self._key.reading.kept(history.partitions)
        kept = history.partitions[self._columns]
        if self._key.scope == "total":
            if not self.stretches.started_at.shape[1]:
                self._select(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), 1)
        else:
            known, place = columns_of(self._kept, kept)
            self._select(known, place, kept.size)
        self._kept = kept

    def _select(self, known: Columns, place: Columns, width: int) -> None:
        self.stretches.select(known, place, width)
        for one in self.watched:
            if one.early_since is not None:
                moved = np.full(width, NO_STRETCH, dtype=np.int64)
                moved[known] = one.early_since[place]
                one.early_since = moved
