"""One reading of a window's offsets, shared by all rules that read them the same way."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lagbench.core.persistence.decision import GroupFigures, Growth
from lagbench.core.persistence.lag_source import Offsets, PartitionIds
from lagbench.core.persistence.offset_history import Columns, OffsetHistory
from lagbench.core.persistence.partition_lag import OffsetReading, Records, ages, stuck
from lagbench.core.persistence.projection import Rates, growth_per_second
from lagbench.core.persistence.rule import NS_PER_SECOND, LagRule, LagScope
from lagbench.core.persistence.stretches import Values


class ViewKey(NamedTuple):
    """What makes two rules read the same values from the same offsets."""

    reading: OffsetReading
    scope: LagScope
    excludes_stuck: bool
    age_rows: int | None  # lagMetric seconds looks back over the rule's own window


def view_key(rule: LagRule) -> ViewKey:
    """Return the key of the view that ``rule`` looks at."""
    reading = OffsetReading(
        rule.offset_reset_policy, rule.scale_to_zero_on_invalid_offset, rule.partition_limitation
    )
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


@dataclass(frozen=True, eq=False)
class GroupReading:
    """The newest sample of a history under one view; nothing is computed twice."""

    history: OffsetHistory
    key: ViewKey
    columns: Columns | slice
    partitions: PartitionIds  # those of the columns
    _growths: dict[int, tuple[Rates, Growth]] = field(default_factory=dict)

    def unknown_partitions(self) -> list[int]:
        """Return the partitions whose lag cannot be said: their start was never told."""
        if not self.key.reading.needs_log_start:
            return []
        committed = self.history.committed(1)[0, self.columns]
        is_unknown = (committed < 0) & (self._log_start < 0)
        return [int(partition) for partition in self.partitions[is_unknown]]

    @cached_property
    def lag(self) -> Records:
        """Lag of each counted partition."""
        return self.lag_of_row(1)

    def lag_of_row(self, back: int) -> Records:
        """Return the lag at the ``back``-th newest sample (1: the newest)."""
        end = self.history.end(back)[0, self.columns]
        committed = self.history.committed(back)[0, self.columns]
        return self.key.reading.lag(end, committed, self._log_start)

    @cached_property
    def values(self) -> Values:
        """What is compared with the threshold: per partition, or one value with scope total."""
        if self.key.age_rows is None:
            return self._scoped(self.lag)
        age = self._ages[0]
        return age if self.key.scope == "partition" else age.max(keepdims=True)

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

    @cached_property
    def figures(self) -> GroupFigures:
        """The sums over the counted partitions."""
        largest = int(self.lag.argmax())
        counted, total = self._counted, int(self.lag.sum())
        oldest, is_bound = self._oldest_age()
        committed = self.history.committed(1)[0, self.columns]
        return GroupFigures(
            at_ns=int(self.history.times(1)[0]),
            samples=len(self.history),
            partitions=self.partitions.size,
            without_commit=int(np.count_nonzero(committed < 0)),
            total_lag=total,
            counted_lag=total if counted is self.lag else int(counted.sum()),
            partitions_with_lag=int(np.count_nonzero(counted)),
            largest_lag=int(self.lag[largest]),
            largest_partition=int(self.partitions[largest]),
            oldest_age_ns=oldest,
            is_age_a_bound=is_bound,
        )

    def growth(self, intervals: int) -> tuple[Rates, Growth] | None:
        """Return (growth of each value, rates of the counted total) over the last ``intervals``.

        None while there are fewer samples. The out-rate is the in-rate minus the growth of the
        lag, so that a partition without a commit takes part as well.
        """
        if len(self.history) <= intervals:
            return None
        if intervals not in self._growths:
            self._growths[intervals] = self._measure_growth(intervals)
        return self._growths[intervals]

    def _measure_growth(self, intervals: int) -> tuple[Rates, Growth]:
        times = self.history.times(intervals + 1)
        elapsed_ns = int(times[-1] - times[0])
        then = self.lag_of_row(intervals + 1)
        of_values = growth_per_second(self._scoped(self.lag), self._scoped(then), elapsed_ns)
        is_counted = ~self._is_excluded
        total = growth_per_second(self.lag[is_counted].sum(), then[is_counted].sum(), elapsed_ns)
        end = self.history.end(intervals + 1)[:, self.columns][:, is_counted]
        in_rate = float(growth_per_second(end[-1].sum(), end[0].sum(), elapsed_ns))
        return of_values, Growth(in_rate, in_rate - float(total), elapsed_ns / NS_PER_SECOND)

    @property
    def _log_start(self) -> Offsets:
        return self.history.log_start[self.columns]

    @cached_property
    def _is_excluded(self) -> npt.NDArray[np.bool_]:
        if not self.key.excludes_stuck:
            return np.zeros(self.partitions.size, dtype=np.bool_)
        return stuck(self.history.committed(2)[:, self.columns])

    @cached_property
    def _counted(self) -> Records:
        return np.where(self._is_excluded, 0, self.lag) if self.key.excludes_stuck else self.lag

    @cached_property
    def _ages(self) -> tuple[Values, npt.NDArray[np.bool_]]:
        return self._ages_of(self.key.age_rows, 0)

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

    def _scoped(self, lag: Records) -> Values:
        return lag if self.key.scope == "partition" else lag.sum(keepdims=True)

    def _oldest_age(self) -> tuple[int | None, bool]:
        if self.key.age_rows is None:
            return None, False
        age, is_bound = self._ages
        counted = np.where(self._is_excluded, 0, age)
        oldest = int(counted.argmax())
        return int(counted[oldest]), bool(is_bound[oldest] & (counted[oldest] > 0))
