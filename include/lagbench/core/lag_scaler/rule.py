"""Decide whether lag is persistent lag: one rule over one window, at the newest sample."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.lag_scaler.decision import Decision, GroupFigures, Growth, LagUnavailable
from lagbench.core.lag_scaler.group_reading import GroupReading
from lagbench.core.lag_scaler.hold import Hold
from lagbench.core.lag_scaler.metric_value import capped
from lagbench.core.lag_scaler.offset_history import Instants
from lagbench.core.lag_scaler.projection import (
    cannot_drain,
    evidence_intervals,
    projected_total,
)
from lagbench.core.lag_scaler.rule_parameters import LagRule, max_gap_ns
from lagbench.core.lag_scaler.stretches import NO_STRETCH


class Trouble(Protocol):
    """The last problem with the samples of a rule."""

    def last_trouble(self) -> str:
        """Return a sentence; empty without a problem."""
        ...


class WatchedRule:
    """``decide`` costs the same for any window: everything is computed once per sample.

    ``early_since`` holds the start of each stretch that was judged early; it counts as long as
    that stretch continues. None unless lagMetric is projected.
    """

    def __init__(self, rule: LagRule, trouble: Trouble) -> None:
        """Start without a decision."""
        up, down = rule.scale_up_stabilization_seconds, rule.scale_down_stabilization_seconds
        self.rule = rule
        self.decision: Decision | None = None
        self.early_since: Instants | None = None
        self.hold = (
            Hold(round(up * NS_PER_SECOND), round(down * NS_PER_SECOND)) if up or down else None
        )
        self._trouble = trouble
        self._needed_ns = rule.needed_span_ns
        self._max_gap_ns = max_gap_ns(rule.sampling_interval_seconds)

    def decide(self, now_ns: int) -> Decision:
        """Return the decision of the newest sample; ``LagUnavailable`` without a fresh one."""
        decision = self.decision
        if decision is None:
            trouble = self._trouble.last_trouble() or "none has been taken yet"
            raise LagUnavailable(f"no current sample: {trouble}")
        age_ns = now_ns - decision.figures.at_ns
        if -self._max_gap_ns <= age_ns <= self._max_gap_ns:
            return decision
        trouble = self._trouble.last_trouble() or "no read has ended since"
        raise LagUnavailable(
            f"the newest sample is {age_ns / NS_PER_SECOND:.1f} s old, at most "
            f"{self._max_gap_ns / NS_PER_SECOND:g} s is allowed (2.5 sampling intervals): {trouble}"
        )

    def clear_hold(self) -> None:
        """Clear the state of stabilisation."""
        if self.hold is not None:
            self.hold.clear()

    def settle(
        self, reading: GroupReading, starts: Instants, oldest: tuple[int, int], *, is_new: bool
    ) -> None:
        """Decide on a reading; ``is_new``: it is a new sample, which stabilisation counts once."""
        figures, rule = reading.figures, self.rule
        started_at, column = oldest
        has_stretch = started_at != NO_STRETCH
        is_persistent = has_stretch and figures.at_ns - started_at >= self._needed_ns
        growth = self._project(reading, starts) if rule.lag_metric == "projected" else None
        is_early = not is_persistent and self._is_early()
        uncapped = self._uncapped(figures, growth)
        value, bound = capped(
            rule,
            uncapped,
            partitions=figures.partitions,
            with_lag=figures.partitions_with_lag,
        )
        counts = is_persistent or is_early
        raw = float(value) if counts else 0.0
        is_active = counts and figures.total_lag > rule.activation_lag_threshold
        served = raw
        if self.hold is not None:
            if is_new:
                self.hold.push(figures.at_ns, raw, is_active=is_active)
            served, is_active = self.hold.served, self.hold.is_active
        self.decision = Decision(
            rule,
            figures,
            started_at if has_stretch else None,
            reading.partition_of(column) if has_stretch else None,
            is_persistent,
            is_early,
            growth,
            float(uncapped),
            bound,
            raw,
            served,
            is_active,
        )

    def _project(self, reading: GroupReading, starts: Instants) -> Growth | None:
        """Return the measured rates, and mark the stretches that cannot end in time at them."""
        if self.early_since is None:
            self.early_since = np.full(starts.size, NO_STRETCH, dtype=np.int64)
        stays = self.early_since == starts
        measured = reading.growth(evidence_intervals(self.rule), self.rule.window_size)
        if measured is not None:
            at_ns = reading.figures.at_ns
            stays |= cannot_drain(self.rule, at_ns, reading.values, measured[0], starts)
        self.early_since = np.where(stays, starts, NO_STRETCH)
        return None if measured is None else measured[1]

    def _is_early(self) -> bool:
        return self.early_since is not None and bool((self.early_since != NO_STRETCH).any())

    def _uncapped(self, figures: GroupFigures, growth: Growth | None) -> float:
        if figures.oldest_age_ns is not None:
            return figures.oldest_age_ns / NS_PER_SECOND
        if growth is None:
            return figures.counted_lag
        return projected_total(figures.counted_lag, growth.per_second, self.rule)
