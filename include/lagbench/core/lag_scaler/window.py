"""Hold the samples of one group and topic at one sampling interval, and all their rules."""

from __future__ import annotations

from lagbench.core.lag_scaler.group_reading import ViewKey, view_key
from lagbench.core.lag_scaler.lag_source import GroupSample, PartitionIds
from lagbench.core.lag_scaler.offset_history import OffsetHistory, are_same, least
from lagbench.core.lag_scaler.rule import WatchedRule
from lagbench.core.lag_scaler.rule_parameters import LagRule, max_gap_ns
from lagbench.core.lag_scaler.rule_view import RuleView


class GroupWindow:
    """Objects with equal rules share one ``WatchedRule``; all rules share the samples.

    Not thread-safe. ``identity`` names cluster, group, topic and interval, without secrets: a
    snapshot is restored only into the window that it was taken from.
    """

    def __init__(self, identity: str, interval_seconds: float) -> None:
        """Start without samples and rules."""
        self.identity = identity
        self.interval_seconds = interval_seconds
        self.max_gap_ns = max_gap_ns(interval_seconds)
        self.history = OffsetHistory(depth=2)
        self.views: dict[ViewKey, RuleView] = {}
        self._watched: dict[LagRule, WatchedRule] = {}
        self._trouble = ""

    @property
    def rules(self) -> tuple[LagRule, ...]:
        """Return the rules watched, those of a restored snapshot included."""
        return tuple(self._watched)

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
        watched = self._watched.get(rule)
        if watched is None:
            self.history.set_depth(max(self.history.depth, rule.window_size))
            key = view_key(rule)
            if key not in self.views:
                self.views[key] = RuleView(key, self.max_gap_ns, self)
            watched = self.views[key].watch(rule, self.history)
            self._watched[rule] = watched
        return watched

    def forget(self, rule: LagRule) -> None:
        """Drop a rule that is no longer used; an unknown one is not an error."""
        watched = self._watched.pop(rule, None)
        if watched is None:
            return
        key = view_key(rule)
        self.views[key].drop(watched)
        if not self.views[key].watched:
            del self.views[key]
        depths = [other.window_size for other in self._watched]
        self.history.set_depth(max(depths, default=2))

    def add(self, sample: GroupSample) -> bool:
        """Add a sample; False, with the reason in ``last_trouble``, if it is unusable.

        A failed or malformed sample changes nothing: it is a gap. A sample that is not newer than
        the last one changes nothing either. If it is older by more than the longest gap, the clock
        was set back, and the window starts again with it.
        """
        self._trouble = sample.error or _malformed(sample, self.history.partitions)
        if self._trouble:
            return False
        newest = self.newest_at_ns
        if newest is not None and sample.at_ns <= newest:
            if newest - sample.at_ns <= self.max_gap_ns:
                self._trouble = "a sample came that is not newer than the last one"
                return False
            self.history.clear()
        self.history.append(sample)
        for view in self.views.values():
            view.advance(self.history)
        return True


def _malformed(sample: GroupSample, known: PartitionIds) -> str:
    """Return the problem; partitions that are the ``known`` ones are in order."""
    count = sample.partitions.size
    earliest = sample.end if sample.earliest is None else sample.earliest
    if not count:
        return "the topic has no partition"
    if not sample.end.size == sample.committed.size == earliest.size == count:
        return "the sample's arrays differ in length"
    if not are_same(sample.partitions, known) and not _is_ascending(sample.partitions):
        return "the sample's partitions are not in ascending order"
    if least(sample.end) < 0:
        missing = sample.partitions[sample.end < 0].tolist()
        return f"the end offset of partition {missing[0]} is unknown"
    return ""


def _is_ascending(partitions: PartitionIds) -> bool:
    return bool((partitions[1:] > partitions[:-1]).all())
