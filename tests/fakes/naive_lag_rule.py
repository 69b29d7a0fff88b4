"""The lag rule written straight from its text: all samples kept, everything looked up again."""

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from lag_scaler.rule import LagRule

Row = tuple[int, list[int], list[int], list[int]]  # milliseconds, end, committed, log start
MS = 1_000_000


@dataclass
class NaiveDecision:
    """The decision of the rule at the newest of the samples."""

    is_persistent: bool
    metric: float
    is_active: bool


class NaiveRule:
    """Samples are good ones, ascending in time; offsets of partitions 0, 1, ..."""

    def __init__(self, rule: LagRule) -> None:
        """Start without samples; what is known of a sample when it comes never changes."""
        self.rule = rule
        self.rows: list[Row] = []
        self.raw: list[tuple[int, float, bool]] = []
        self.values = cache(self._values)
        self.starts = cache(self._starts)
        self.outlasts = cache(self._outlasts)

    def add(self, row: Row) -> NaiveDecision:
        """Return the decision with one more sample."""
        self.rows.append(row)
        newest = len(self.rows) - 1
        persistent = self.spans(newest) or self.is_early(newest)
        metric = self.capped(newest) if persistent else 0.0
        is_above = sum(self.lag(newest)) > self.rule.activation_lag_threshold
        self.raw.append((row[0], metric, persistent and is_above))
        served, active = self.stabilized(newest)
        return NaiveDecision(persistent, served, active)

    def log_start(self, partition: int, seen_by: int) -> int:
        """Return the highest log start told so far."""
        return max(row[3][partition] for row in self.rows[: seen_by + 1])

    def lag(self, index: int, seen_by: int | None = None) -> list[int]:
        """Return each partition's lag at a sample, with the log starts known by another."""
        _, ends, commits, _ = self.rows[index]
        result = []
        for partition, (end, commit) in enumerate(zip(ends, commits, strict=True)):
            start = max(commit, self.log_start(partition, seen_by or index))
            if commit >= 0 or self.rule.offset_reset_policy == "earliest":
                lag = max(0, end - start)
            else:
                lag = 1
            if commit < 0 and self.rule.scale_to_zero_on_invalid_offset:
                lag = 0
            result.append(lag)
        return self.limited(result)

    def limited(self, values: list) -> list:
        """Return the values of the partitions that count."""
        kept = self.rule.partition_limitation
        return [value for number, value in enumerate(values) if kept is None or number in kept]

    def age(self, index: int) -> list[int]:
        """Return the age in nanoseconds of each partition's oldest waiting record."""
        rows = self.rows[: index + 1][-self.rule.window_size :]
        now, ends, commits, _ = rows[-1]
        reads_from_start = (
            self.rule.offset_reset_policy == "earliest"
            and not self.rule.scale_to_zero_on_invalid_offset
        )
        result = []
        for partition, (end, commit) in enumerate(zip(ends, commits, strict=True)):
            start = max(commit, self.log_start(partition, index))
            if start >= end or (commit < 0 and not reads_from_start):
                result.append(0)
                continue
            written = rows[0][0] * MS
            for before, after in pairwise(rows):
                low, high = before[1][partition], after[1][partition]
                if low <= start < high:
                    share = (start - low) / (high - low)
                    written = before[0] * MS + int(share * ((after[0] - before[0]) * MS))
            result.append(now * MS - written)
        return self.limited(result)

    def _values(self, index: int) -> list[int]:
        """Return what the threshold is compared with."""
        is_age = self.rule.lag_metric == "seconds"
        each = self.age(index) if is_age else self.lag(index)
        if self.rule.lag_scope == "partition":
            return each
        return [max(each) if is_age else sum(each)]

    def _starts(self, index: int) -> list[int | None]:
        """Return since when each value's trailing stretch lasts."""
        unit = 1000 * MS if self.rule.lag_metric == "seconds" else 1
        result: list[int | None] = []
        for place in range(len(self.values(index))):
            start = None
            for back in range(index, -1, -1):
                if self.values(back)[place] < self.rule.lag_threshold * unit:
                    break
                gap = 0 if start is None else start - self.rows[back][0]
                if gap > 2500 * self.rule.sampling_interval_seconds:
                    break
                start = self.rows[back][0]
            result.append(start)
        return result

    def spans(self, index: int) -> bool:
        """Return whether a trailing stretch spans the sustain time, within half an interval."""
        needed = self.rule.sustain_seconds - self.rule.sampling_interval_seconds / 2
        now = self.rows[index][0]
        starts = self.starts(index)
        return any(start is not None and now - start >= 1000 * needed for start in starts)

    def evidence(self) -> int:
        """Return over how many intervals rates are taken."""
        rule = self.rule
        quarter = math.ceil(rule.sustain_seconds / 4 / rule.sampling_interval_seconds)
        return min(max(2, quarter), rule.window_size - 1)

    def is_early(self, index: int) -> bool:
        """Return whether a stretch that continues was judged at one of its samples to last."""
        if self.rule.lag_metric != "projected":
            return False
        for place, start in enumerate(self.starts(index)):
            for back in range(index, -1, -1):
                if start is None or self.rows[back][0] < start:
                    break
                if self.outlasts(back, place, start):
                    return True
        return False

    def _outlasts(self, index: int, place: int, start: int) -> bool:
        rule, intervals = self.rule, self.evidence()
        if index < intervals:
            return False
        now, then = self.rows[index][0], self.rows[index - intervals][0]
        span = (now - start) / 1000
        if span < (intervals - 0.5) * rule.sampling_interval_seconds:
            return False
        value = self.values(index)[place]
        before = self.lag(index - intervals, index)
        known = before[place] if rule.lag_scope == "partition" else sum(before)
        kept = self.limited(list(range(len(self.rows[index][1]))))
        looked_at = [kept[place]] if rule.lag_scope == "partition" else kept
        growth = (value - known) / ((now - then) / 1000) + self.falls_by(index, looked_at)
        return value + growth * max(0.0, rule.sustain_seconds - span) >= rule.lag_threshold

    def falls_by(self, index: int, partitions: list[int]) -> float:
        """Return what the in-rate loses (0 or less) when it goes back to that of the window."""
        first = max(0, index + 1 - self.rule.window_size)
        recent, usual = (
            sum(self.rows[index][1][number] - self.rows[start][1][number] for number in partitions)
            / ((self.rows[index][0] - self.rows[start][0]) / 1000)
            for start in (index - self.evidence(), first)
        )
        return min(0.0, usual - recent)

    def counted(self, index: int) -> list[bool]:
        """Return which partitions excludePersistentLag leaves in."""
        if not self.rule.exclude_persistent_lag or index == 0:
            return self.limited([True] * len(self.rows[index][2]))
        both = zip(self.rows[index][2], self.rows[index - 1][2], strict=True)
        return self.limited([new != old or new < 0 for new, old in both])

    def uncapped(self, index: int) -> float:
        """Return the metric before its caps."""
        counted = self.counted(index)
        if self.rule.lag_metric == "seconds":
            each = zip(self.age(index), counted, strict=True)
            return max(age if counts else 0 for age, counts in each) / (1000 * MS)
        total = sum(lag for lag, counts in zip(self.lag(index), counted, strict=True) if counts)
        intervals = self.evidence()
        if self.rule.lag_metric == "records" or index < intervals:
            return total
        then = self.lag(index - intervals, index)
        before = sum(lag for lag, counts in zip(then, counted, strict=True) if counts)
        elapsed = (self.rows[index][0] - self.rows[index - intervals][0]) / 1000
        kept = self.limited(list(range(len(self.rows[index][1]))))
        looked_at = [number for number, counts in zip(kept, counted, strict=True) if counts]
        growth = (total - before) / elapsed + self.falls_by(index, looked_at)
        return total + max(0, growth) * self.rule.window_span_seconds

    def capped(self, index: int) -> float:
        """Return the metric: ceil(metric / threshold) stays within the bound."""
        rule, value = self.rule, self.uncapped(index)
        counted = zip(self.lag(index), self.counted(index), strict=True)
        with_lag = sum(counts and lag > 0 for lag, counts in counted)
        partitions = len(self.lag(index))
        replicas = value / rule.lag_threshold
        if rule.ensure_even_distribution_of_partitions and value > 0:
            choices = [d for d in range(1, partitions + 1) if partitions % d == 0 and d >= replicas]
            return (choices[0] if choices else partitions) * rule.lag_threshold
        if rule.limit_to_partitions_with_lag:
            return min(value, with_lag * rule.lag_threshold)
        if rule.allow_idle_consumers:
            return value
        return min(value, partitions * rule.lag_threshold)

    def stabilized(self, index: int) -> tuple[float, bool]:
        """Return the highest of the last N seconds of the lowest over M seconds before each."""
        up = 1000 * self.rule.scale_up_stabilization_seconds
        down = 1000 * self.rule.scale_down_stabilization_seconds
        values, actives = [], []
        now = self.raw[index][0]
        for at_ms, _, _ in self.raw:
            if now - down <= at_ms <= now:
                recent = [raw for raw in self.raw if at_ms - up <= raw[0] <= at_ms]
                values.append(min(raw[1] for raw in recent))
                actives.append(all(raw[2] for raw in recent))
        return max(values), any(actives)
