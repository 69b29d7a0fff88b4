"""Decide whether a load step needed pods, and whether any could come.

A step needs pods when after it total lag stays above lagThreshold x replicas x (1 + tolerance of
the HPA) for a whole sync of the HPA. With ``metricType: Value`` the target is the group's: the
replicas do not multiply it. With a formula the lag that adds a pod is not known. If all useful
replicas (the ceiling, or one for each partition) are already Ready, no pod can come. During a gap
in the lag samples it may have needed them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.measures.evidence.lag_readings import LagSeries, gaps_between, gaps_text
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replica_changes import replica_gaps
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_recorder import ReplicaSample


@dataclass(frozen=True, slots=True)
class Standing:
    """Replicas at an instant: wanted and Ready; None: not seen."""

    wanted: int | None
    ready: int | None

    @property
    def is_incomplete(self) -> bool:
        """Return whether some desired pods were not Ready."""
        return self.wanted is not None and self.ready is not None and self.ready < self.wanted


@dataclass(frozen=True, slots=True)
class Due:
    """The pods due after a load step (None: not known), why, and since when."""

    is_due: bool | None
    text: str
    above: tuple[tuple[int, int], ...] = ()

    def is_answered_by(self, change: ReplicaChange | None) -> bool:
        """Return whether the replicas rose while lag was above the threshold."""
        slack = NANOSECONDS
        return change is not None and any(
            start - slack <= change.at <= end + slack for start, end in self.above
        )


def standing(
    records: Sequence[TelemetryRecord], changes: Sequence[ReplicaChange], at: int | None
) -> Standing:
    """Return the replicas at ``at``: the last sample before, with the changes since."""
    before = [r for r in records if isinstance(r, ReplicaSample) and at is not None and r.at <= at]
    if not before or at is None:
        return Standing(None, None)
    last = max(before, key=lambda sample: sample.at)
    if replica_gaps(records, last.at, at):
        return Standing(None, None)
    since = [change for change in changes if last.at < change.at <= at]
    return Standing(since[-1].replicas_after if since else last.spec, last.ready)


def pods_due(
    lag: LagSeries,
    limits: PolicyLimits,
    at_step: Standing,
    *,
    partitions: int,
    step_at: int,
    until_at: int,
    load_needs: float | None,
) -> Due:
    """Return whether the step at ``step_at`` asked for pods until ``until_at``.

    ``load_needs``: the pods that the rate after it needs; None: not known. It decides alone if the
    policy states no threshold; but a formula may follow the lag.
    """
    most = useful_replicas(limits, partitions)
    wanted, ready = at_step.wanted, at_step.ready
    if wanted is None:
        return Due(None, "the replicas at the load step are unknown")
    if wanted >= most and ready is not None and ready >= most:
        return Due(False, f"{wanted} replicas were Ready at the load step, and more cannot help")
    threshold = limits.scales_above_records(wanted)
    if threshold is not None:
        return _due_by_lag(lag, threshold, limits, step_at, until_at)
    is_enough = load_needs is not None and ready is not None and ready >= load_needs
    if is_enough and not limits.has_formula:
        return Due(False, f"{ready} replicas were Ready at the load step; it needs no more")
    return Due(None, limits.scales_above_text(wanted))


def _due_by_lag(
    lag: LagSeries, threshold: float, limits: PolicyLimits, step_at: int, until_at: int
) -> Due:
    """Return whether lag stayed above the threshold of the replicas for a whole sync."""
    sync_seconds, asks_at = limits.flags.sync_seconds_in_force, _tolerated(limits) * threshold
    above = tuple(_above(lag, threshold, step_at, until_at))
    asking = _above(lag, asks_at, step_at, until_at)
    longest = max(((end - start) / NANOSECONDS for start, end in asking), default=0.0)
    gaps = gaps_between(lag.known_at, step_at, until_at)
    is_due: bool | None = False
    text = f"total lag has no gap and was never above {threshold:g}"
    if longest >= sync_seconds:
        seconds = (above[0][0] - step_at) / NANOSECONDS
        is_due = True
        text = f"total lag rose above {threshold:g} {seconds:.1f} s after the load step"
    elif gaps:
        is_due, text = None, gaps_text("total lag", gaps, step_at)
    elif longest > max(0.0, sync_seconds - 2):  # the samples before and after lie that far apart
        is_due = None
        text = f"total lag was above {asks_at:g} for about one sync of the HPA"
    elif above:
        text = (
            f"total lag stayed above {asks_at:g} for {longest:.0f} s at most, no"
            f" whole sync of the HPA ({sync_seconds:g} s)"
        )
    return Due(is_due, text, above)


def useful_replicas(limits: PolicyLimits, partitions: int) -> int:
    """Return the replica count from which no further one is added, or gets a partition.

    A metric that is capped at the partitions is within the HPA's tolerance slightly below them.
    """
    most = min(limits.ceiling_replicas, partitions)
    if not limits.is_capped_at_partitions:
        return most
    tolerated, counted = _tolerated(limits), limits.counted_partitions(partitions)
    sticks = next((n for n in range(1, counted + 1) if counted <= tolerated * n), 0)
    return min(most, sticks)


def _tolerated(limits: PolicyLimits) -> float:
    """Return the highest ratio of lag to what the replicas may hold that adds no replica."""
    return 1 + limits.tolerances.up


def _above(lag: LagSeries, threshold: float, from_at: int, until_at: int) -> list[tuple[int, int]]:
    """Return first and last sample of each period in which every known total is above.

    A gap between samples ends the period.
    """
    total = lag.total
    inside = (lag.at >= from_at) & (lag.at <= until_at) & ~np.isnan(total)
    at, is_above = lag.at[inside], total[inside] > threshold
    if not at.size:
        return []
    gaps = [gap.started_at for gap in gaps_between(at.tolist(), int(at[0]), int(at[-1]))]
    found: list[tuple[int, int]] = []
    was_above = False
    for instant, now in zip(at.tolist(), is_above.tolist(), strict=True):
        if now and was_above and found[-1][1] not in gaps:
            found[-1] = (found[-1][0], instant)
        elif now:
            found.append((instant, instant))
        was_above = now
    return found
