"""The samples of one group and topic at one sampling interval, and all their rules."""

from __future__ import annotations

import numpy as np

from lag_scaler.offsets import GroupSample, OffsetHistory
from lag_scaler.rule import LagRule, max_gap_ns
from lag_scaler.watched_rule import WatchedRule


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
