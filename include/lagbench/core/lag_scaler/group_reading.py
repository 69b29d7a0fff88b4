"""Read a window's offsets once for all rules that read them the same way."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.lag_scaler.decision import GroupFigures, Growth
from lagbench.core.lag_scaler.lag_source import PartitionIds
from lagbench.core.lag_scaler.offset_history import Columns, OffsetHistory, least
from lagbench.core.lag_scaler.partition_lag import OffsetReading, Records, ages, stuck
from lagbench.core.lag_scaler.projection import Rates
from lagbench.core.lag_scaler.rule_parameters import LagRule, LagScope
from lagbench.core.lag_scaler.stretches import Values


class ViewKey(NamedTuple):
    """The settings by which two rules read the same values from the same offsets."""

    reading: OffsetReading
    scope: LagScope
    excludes_stuck: bool
    age_rows: int | None  # lagMetric seconds looks back over the rule's own window


def view_key(rule: LagRule) -> ViewKey:
    """Return the key of the view that ``rule`` uses."""
    reading = OffsetReading(
        rule.offset_reset_policy, rule.scale_to_zero_on_invalid_offset, rule.partition_limitation
    )
    if rule.wakes_for_backlog:
        reading = OffsetReading("earliest", scale_to_zero=False, limitation=reading.limitation)
    is_age = rule.lag_metric == "seconds"
    return ViewKey(
        reading,
        rule.lag_scope,
        rule.exclude_persistent_lag,
        rule.window_size if is_age else None,
    )


def threshold_in_values(rule: LagRule) -> int:
    """Return the threshold in the unit of the view's values: records, or nanoseconds of age."""
    is_age = rule.lag_metric == "seconds"
    return rule.lag_threshold * NS_PER_SECOND if is_age else rule.lag_threshold


class GroupReading:
    """The newest sample of a history under one view; valid until the next sample is added.

    ``lag`` is that of each counted partition. ``values`` are compared with the threshold: one per
    partition, or a single one with scope total. Everything that a sample needs is computed at once:
    for 24 partitions a later look-up costs more than the vector operations themselves.
    """

    __slots__ = (
        "_growths",
        "_is_excluded",
        "_log_start",
        "columns",
        "figures",
        "history",
        "key",
        "lag",
        "partitions",
        "unknown_partitions",
        "values",
    )

    def __init__(
        self,
        history: OffsetHistory,
        key: ViewKey,
        columns: Columns | slice,
        partitions: PartitionIds,
    ) -> None:
        """Read ``columns`` of the newest row, which belong to ``partitions`` (at least one).

        ``unknown_partitions`` have an unknown lag: their log start was never reported.
        """
        self.history, self.key, self.columns, self.partitions = history, key, columns, partitions
        self._growths: dict[tuple[int, int], tuple[Rates, Growth]] | None = None
        log_start = self._log_start = history.log_start[columns]
        end, committed = history.row(1)
        end, committed = end[columns], committed[columns]
        self.unknown_partitions: list[int] = []
        without_commit = 0
        if least(committed) >= 0:
            lag = key.reading.waiting(end, committed, log_start)
        else:
            lag = key.reading.lag(end, committed, log_start)
            without_commit = int(np.count_nonzero(committed < 0))
            if key.reading.needs_log_start:
                self.unknown_partitions = partitions[(committed < 0) & (log_start < 0)].tolist()
        self.lag = counted = lag
        total = counted_total = int(np.add.reduce(lag))
        self._is_excluded: npt.NDArray[np.bool_] | None = None
        if key.excludes_stuck:
            self._is_excluded = stuck(history.committed(2)[:, columns])
            counted = np.where(self._is_excluded, 0, lag)
            counted_total = int(np.add.reduce(counted))
        oldest: int | None = None
        is_bound = False
        if key.age_rows is None:
            is_total = key.scope == "total"
            self.values: Values = np.array([total], dtype=np.int64) if is_total else lag
        else:
            age, is_bound_each = self._ages_of(key.age_rows, 0)
            self.values = age if key.scope == "partition" else age.max(keepdims=True)
            oldest, is_bound = self._oldest(age, is_bound_each)
        largest = int(lag.argmax())
        self.figures = GroupFigures(
            history.newest_at_ns or 0,
            len(history),
            partitions.size,
            without_commit,
            total,
            counted_total,
            int(np.count_nonzero(counted)),
            int(lag.item(largest)),
            int(partitions.item(largest)),
            oldest,
            is_bound,
        )

    def lag_of_row(self, back: int) -> Records:
        """Return the lag at the ``back``-th newest sample (1: the newest)."""
        end, committed = self.history.row(back)
        return self.key.reading.lag(end[self.columns], committed[self.columns], self._log_start)

    def all_values(self) -> Values:
        """Return the values of every kept sample [sample, value], oldest first."""
        rows = len(self.history)
        if self.key.age_rows is not None:
            return self._all_ages(rows)
        end = self.history.end()[:, self.columns]
        committed = self.history.committed()[:, self.columns]
        lag = self.key.reading.lag(end, committed, self._log_start)
        return lag if self.key.scope == "partition" else lag.sum(axis=1, keepdims=True)

    def partition_of(self, column: int) -> int | None:
        """Return the partition that a column of ``values`` stands for; None for the total."""
        return int(self.partitions[column]) if self.key.scope == "partition" else None

    def growth(self, intervals: int, window_rows: int) -> tuple[Rates, Growth] | None:
        """Return (provable growth of each value, rates of the counted total).

        Rates are those of the last ``intervals``, the usual in-rate that of ``window_rows``
        samples. None while there are too few samples. The out-rate is the in-rate minus the growth
        of the lag, so that a partition without a commit also counts.
        """
        if len(self.history) <= intervals:
            return None
        if self._growths is None:
            self._growths = {}
        spans = (intervals + 1, min(window_rows, len(self.history)))
        if spans not in self._growths:
            self._growths[spans] = self._measure_growth(*spans)
        return self._growths[spans]

    def _measure_growth(self, rows: int, window_rows: int) -> tuple[Rates, Growth]:
        arrived, seconds = self._arrivals(rows)
        usually_arrived, window_seconds = self._arrivals(window_rows)
        grown = self.lag - self.lag_of_row(rows)
        counted = slice(None) if self._is_excluded is None else ~self._is_excluded
        in_rate = int(np.add.reduce(arrived[counted])) / seconds
        total = Growth(
            in_per_second=in_rate,
            out_per_second=in_rate - int(np.add.reduce(grown[counted])) / seconds,
            over_seconds=seconds,
            usual_in_per_second=int(np.add.reduce(usually_arrived[counted])) / window_seconds,
        )
        if self.key.scope == "total":
            arrived, usually_arrived, grown = (
                each.sum(keepdims=True) for each in (arrived, usually_arrived, grown)
            )
        falls_by = np.minimum(usually_arrived / window_seconds - arrived / seconds, 0.0)
        return grown / seconds + falls_by, total

    def _arrivals(self, rows: int) -> tuple[Records, float]:
        """Return (records that arrived since the first of the last ``rows`` samples, seconds)."""
        then, _ = self.history.row(rows)
        now, _ = self.history.row(1)
        times = self.history.times(rows)
        elapsed_ns = int(times[-1] - times[0])
        return now[self.columns] - then[self.columns], elapsed_ns / NS_PER_SECOND

    def _ages_of(self, rows: int | None, skip: int) -> tuple[Values, npt.NDArray[np.bool_]]:
        """Return the ages as they were ``skip`` samples before the newest one."""
        past = len(self.history) - skip
        first = 0 if rows is None else max(0, past - rows)
        end = self.history.end()[first:past, self.columns]
        committed = self.history.committed()[past - 1, self.columns]
        waiting = self.key.reading.next_offset(end[-1], committed, self._log_start)
        return ages(self.history.times()[first:past], end, waiting)

    def _all_ages(self, rows: int) -> Values:
        each = [self._ages_of(self.key.age_rows, rows - 1 - row)[0] for row in range(rows)]
        table = np.stack(each)
        return table if self.key.scope == "partition" else table.max(axis=1, keepdims=True)

    def _oldest(self, age: Values, is_bound: npt.NDArray[np.bool_]) -> tuple[int, bool]:
        """Return the highest age of the counted partitions, and whether it is only a bound."""
        counted = age if self._is_excluded is None else np.where(self._is_excluded, 0, age)
        place = int(counted.argmax())
        oldest = int(counted.item(place))
        return oldest, bool(is_bound[place]) and oldest > 0
