"""The samples of one group and topic at one interval, and the rules that follow them.

A rule has its stretches, its rates and its stabilisation from sample to sample.

Growth is what the rates of the evidence time prove, a quarter of the sustain time and at least two
intervals: shorter ones fluctuate with the commit interval, longer ones show a step too late.
    out-rate  = in-rate - (lag now - lag at the start of the evidence) / its duration
    growth    = the lower of the in-rate and the usual in-rate (of the window) - out-rate
A burst may end at any moment: as long as the pods could drain its backlog in time under the usual
traffic, nothing is proved. After a lasting step the backlog itself is soon too large for that.
    projected = lag now + max(0, growth) x window        (window: (windowSize - 1) x interval)
    early     = the stretch has lasted the evidence time, and
                lag now + growth x (sustainSeconds - span of the stretch) >= threshold
Once early, a stretch stays early until it ends: else the pods that it asked for would remove their
own cause.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lag_scaler.keda_values import NS_PER_SECOND
from lag_scaler.offsets import (
    GroupSample,
    Instants,
    OffsetHistory,
    PartitionIds,
    RuleColumns,
    Values,
    moved,
)
from lag_scaler.rule import (
    SPAN_TOLERANCE_INTERVALS,
    Decision,
    GroupFigures,
    Growth,
    LagRule,
    LagUnavailable,
    max_gap_ns,
)

# A value that is below the threshold now has no stretch.
NO_STRETCH = np.iinfo(np.int64).max
_LISTED_PARTITIONS = 5


@dataclass(slots=True)
class Hold:
    """Stabilise the metric: it rises to the lowest and falls to the highest of recent values.

    Served is the highest, over the last ``down_ns``, of the lowest over the ``up_ns`` before it,
    both ends included. The same two rules hold activity, as a value of 0 or 1.
    """

    up_ns: int
    down_ns: int
    recent: list[tuple[int, float, bool]] = field(default_factory=list)
    raised: list[tuple[int, float, bool]] = field(default_factory=list)

    def push(self, at_ns: int, value: float, *, is_active: bool) -> None:
        """Add one sample's value; after a clock that was set back, earlier ones are forgotten."""
        if self.recent and at_ns < self.recent[-1][0]:
            self.recent.clear()
            self.raised.clear()
        self.recent.append((at_ns, value, is_active))
        self.recent = [one for one in self.recent if one[0] >= at_ns - self.up_ns]
        lowest = min(one[1] for one in self.recent)
        self.raised.append((at_ns, lowest, all(one[2] for one in self.recent)))
        self.raised = [one for one in self.raised if one[0] >= at_ns - self.down_ns]

    @property
    def served(self) -> tuple[float, bool]:
        """Return the metric and whether the object is active."""
        return max(one[1] for one in self.raised), any(one[2] for one in self.raised)


class WatchedRule:
    """A rule and its newest decision.

    ``started_at`` is the first sample of each value's trailing stretch (unix ns); ``early_since``
    that of a stretch that was judged early, for as long as it continues.
    """

    def __init__(self, rule: LagRule, trouble: str) -> None:
        """Start without a decision; ``trouble``: why there is no newer sample."""
        up, down = rule.scale_up_stabilization_seconds, rule.scale_down_stabilization_seconds
        self.rule = rule
        self.decision: Decision | None = None
        self.partitions: PartitionIds = np.empty(0, dtype=np.int32)
        self.started_at: Instants = np.empty(0, dtype=np.int64)
        self.early_since: Instants = np.empty(0, dtype=np.int64)
        self.hold = Hold(round(up * NS_PER_SECOND), round(down * NS_PER_SECOND))
        self.trouble = trouble
        self._max_gap_ns = max_gap_ns(rule.sampling_interval_seconds)

    def decide(self, now_ns: int) -> Decision:
        """Return the decision of the newest sample; ``LagUnavailable`` without a fresh one."""
        decision, trouble = self.decision, self.trouble
        if decision is None:
            raise LagUnavailable(f"no current sample: {trouble or 'none has been taken yet'}")
        age_ns = now_ns - decision.figures.at_ns
        if -self._max_gap_ns <= age_ns <= self._max_gap_ns:
            return decision
        raise LagUnavailable(
            f"the newest sample is {age_ns / NS_PER_SECOND:.1f} s old, at most "
            f"{self._max_gap_ns / NS_PER_SECOND:g} s is allowed: "
            f"{trouble or 'no read has ended since'}"
        )

    def begin(self, history: OffsetHistory) -> None:
        """Start from the samples kept so far: they count for the stretches."""
        if not len(history):
            return
        columns = RuleColumns(self.rule, history)
        self._align(columns.partitions)
        if columns.partitions.size:
            for row in range(len(history) - 1):
                self._extend(columns, row)
        self.take(history)

    def take(self, history: OffsetHistory) -> None:
        """Take in the newest sample of a history."""
        columns = RuleColumns(self.rule, history)
        self._align(columns.partitions)
        self.trouble = self._problem(columns)
        if not self.trouble:
            self._extend(columns, len(history) - 1)
            self._decide(columns, is_new=True)

    def resume(self, history: OffsetHistory) -> None:
        """Decide again on the newest sample after the state was restored."""
        columns = RuleColumns(self.rule, history)
        self.trouble = self._problem(columns)
        if not self.trouble:
            self._decide(columns, is_new=False)

    def _problem(self, columns: RuleColumns) -> str:
        if not columns.partitions.size:
            return "no partition of the topic is in partitionLimitation"
        unknown = columns.unknown_partitions()
        if not unknown:
            return ""
        listed = ", ".join(map(str, unknown[:_LISTED_PARTITIONS]))
        more = ", ..." if len(unknown) > _LISTED_PARTITIONS else ""
        return f"the log start of partition {listed}{more} is unknown, so its lag is, too"

    def _align(self, partitions: PartitionIds) -> None:
        """Apply a change of the topic's partitions; stretches of those that stay continue."""
        if np.array_equal(partitions, self.partitions):
            return
        if self.rule.lag_scope == "total":
            if not self.started_at.size:
                self.started_at = self.early_since = np.full(1, NO_STRETCH)
        else:
            self.started_at = self._carried(self.started_at, partitions)
            if self.rule.lag_metric == "projected":
                self.early_since = self._carried(self.early_since, partitions)
        self.partitions = partitions

    def _carried(self, values: Instants, partitions: PartitionIds) -> Instants:
        fresh = np.full(partitions.size, NO_STRETCH)
        return moved(values, self.partitions, fresh, partitions) if values.size else fresh

    def _extend(self, columns: RuleColumns, row: int) -> None:
        """Continue, begin and end stretches with one more row; a gap before it ends them all."""
        at_ns = int(columns.times[row])
        if row == 0 or at_ns - columns.times[row - 1] > self._max_gap_ns:
            self.started_at = np.full_like(self.started_at, NO_STRETCH)
        is_below = columns.values(row) < self.rule.threshold_in_values
        self.started_at = np.where(is_below, NO_STRETCH, np.minimum(self.started_at, at_ns))

    def _decide(self, columns: RuleColumns, *, is_new: bool) -> None:
        rule = self.rule
        lag, is_stuck = columns.lag(-1), columns.is_stuck()
        figures = self._figures(columns, lag, is_stuck)
        place = int(self.started_at.argmin())
        started_at = int(self.started_at[place])
        has_stretch = started_at != NO_STRETCH
        is_persistent = has_stretch and figures.at_ns - started_at >= rule.needed_span_ns
        growth = None
        if rule.lag_metric == "projected":
            growth = self._project(columns, lag, ~is_stuck)
        is_early = not is_persistent and bool((self.early_since != NO_STRETCH).any())
        uncapped = float(figures.counted_lag)
        if figures.oldest_age_ns is not None:
            uncapped = figures.oldest_age_ns / NS_PER_SECOND
        elif growth is not None:
            uncapped += max(0.0, growth.per_second) * rule.window_span_seconds
        value, bound = rule.capped(
            uncapped, partitions=figures.partitions, with_lag=figures.partitions_with_lag
        )
        counts = is_persistent or is_early
        raw = float(value) if counts else 0.0
        if is_new:
            is_active = counts and figures.total_lag > rule.activation_lag_threshold
            self.hold.push(figures.at_ns, raw, is_active=is_active)
        served, is_active = self.hold.served
        by_partition = has_stretch and rule.lag_scope == "partition"
        self.decision = Decision(
            rule,
            figures,
            started_at if has_stretch else None,
            int(columns.partitions[place]) if by_partition else None,
            is_persistent,
            is_early,
            growth,
            uncapped,
            bound,
            raw,
            served,
            is_active,
        )

    def _figures(
        self, columns: RuleColumns, lag: Values, is_stuck: npt.NDArray[np.bool_]
    ) -> GroupFigures:
        counted = np.where(is_stuck, 0, lag)
        oldest, is_bound = None, False
        if self.rule.lag_metric == "seconds":
            age, is_bound_each = columns.ages(len(columns.times) - 1)
            age = np.where(is_stuck, 0, age)
            place = int(age.argmax())
            oldest = int(age[place])
            is_bound = bool(is_bound_each[place]) and oldest > 0
        largest = int(lag.argmax())
        return GroupFigures(
            int(columns.times[-1]),
            len(columns.times),
            columns.partitions.size,
            int(np.count_nonzero(columns.committed[-1] < 0)),
            int(lag.sum()),
            int(counted.sum()),
            int(np.count_nonzero(counted)),
            int(lag[largest]),
            int(columns.partitions[largest]),
            oldest,
            is_bound,
        )

    def _project(
        self, columns: RuleColumns, lag: Values, is_counted: npt.NDArray[np.bool_]
    ) -> Growth | None:
        """Return the measured rates, and mark the stretches that cannot end in time at them.

        The out-rate is the in-rate minus the growth of the lag, so that a partition without a
        commit also counts.
        """
        rule, rows = self.rule, self.rule.evidence_intervals + 1
        is_early = (self.early_since == self.started_at) & (self.started_at != NO_STRETCH)
        growth = None
        if len(columns.times) >= rows:
            first = -min(rule.window_size, len(columns.times))
            seconds, window_seconds = (
                int(columns.times[-1] - columns.times[row]) / NS_PER_SECOND
                for row in (-rows, first)
            )
            arrived, usual = (columns.end[-1] - columns.end[row] for row in (-rows, first))
            grown = lag - columns.lag(-rows)
            in_rate = int(arrived[is_counted].sum()) / seconds
            growth = Growth(
                in_per_second=in_rate,
                out_per_second=in_rate - int(grown[is_counted].sum()) / seconds,
                over_seconds=seconds,
                usual_in_per_second=int(usual[is_counted].sum()) / window_seconds,
            )
            if rule.lag_scope == "total":
                arrived, usual, grown = (
                    each.sum(keepdims=True) for each in (arrived, usual, grown)
                )
            falls_by = np.minimum(usual / window_seconds - arrived / seconds, 0.0)
            is_early |= self._cannot_drain(columns, grown / seconds + falls_by)
        self.early_since = np.where(is_early, self.started_at, NO_STRETCH)
        return growth

    def _cannot_drain(
        self, columns: RuleColumns, growth: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Return the values whose stretch will outlast the sustain time at the measured rates."""
        rule = self.rule
        has_stretch = self.started_at != NO_STRETCH
        span = np.where(has_stretch, columns.times[-1] - self.started_at, 0) / NS_PER_SECOND
        evidence = rule.evidence_intervals - SPAN_TOLERANCE_INTERVALS
        remaining = np.maximum(rule.sustain_seconds - span, 0.0)
        is_early: npt.NDArray[np.bool_] = has_stretch & (
            span >= evidence * rule.sampling_interval_seconds
        )
        is_early &= columns.values(-1) + growth * remaining >= rule.lag_threshold
        return is_early


class GroupWindow:
    """Equal rules share one ``WatchedRule``, and all of them the samples. Not thread-safe."""

    def __init__(self, interval_seconds: float) -> None:
        """Start without samples and rules."""
        self.interval_seconds = interval_seconds
        self.max_gap_ns = max_gap_ns(interval_seconds)
        self.history = OffsetHistory(depth=2)
        self.watched: dict[LagRule, WatchedRule] = {}
        self.trouble = ""
        """Why the last sample was not added; empty when it was."""

    @property
    def newest_at_ns(self) -> int | None:
        """Return the instant of the newest good sample."""
        return self.history.newest_at_ns

    def watch(self, rule: LagRule) -> WatchedRule:
        """Return the evaluation of ``rule``; a new one starts from the kept samples."""
        if rule.sampling_interval_seconds != self.interval_seconds:
            raise ValueError(
                f"a rule sampled every {rule.sampling_interval_seconds} s cannot look at a window "
                f"of {self.interval_seconds} s"
            )
        if rule not in self.watched:
            self.history.set_depth(max(self.history.depth, rule.window_size))
            self.watched[rule] = WatchedRule(rule, self.trouble)
            self.watched[rule].begin(self.history)
        return self.watched[rule]

    def forget(self, rule: LagRule) -> None:
        """Drop a rule that is no longer used; an unknown one is not an error."""
        self.watched.pop(rule, None)
        self.history.set_depth(max((other.window_size for other in self.watched), default=2))

    def add(self, sample: GroupSample) -> bool:
        """Add a sample; False, with the reason in ``trouble``, if it is unusable.

        A failed or malformed sample changes nothing: it is a gap. A sample that is not newer than
        the last one changes nothing either. If it is older by more than the longest gap, the clock
        was set back, and the window starts again with it.
        """
        newest, self.trouble = self.newest_at_ns, sample.error or _malformed(sample)
        if not self.trouble and newest is not None and sample.at_ns <= newest:
            if newest - sample.at_ns <= self.max_gap_ns:
                self.trouble = "a sample came that is not newer than the last one"
            else:
                self.history.clear()
        for watched in self.watched.values():
            watched.trouble = self.trouble
        if self.trouble:
            return False
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
