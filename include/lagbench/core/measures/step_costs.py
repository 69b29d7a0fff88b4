"""Measure gaps in handovers of partitions: old owner's last record to new owner's first one.

A gap includes time without traffic, so it is an upper bound of the cost of the rebalance. A
negative gap means that both owners worked at once; it counts as 0 here (the zombies include it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from lagbench.core.measures.model import MeasureModel, histogram, percentile
from lagbench.core.measures.rate_dip import NO_WORK_REASONS
from lagbench.core.measures.rebalance_episodes import RebalanceEpisode

BOUNDS_SECONDS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class GapBin(MeasureModel):
    """Handovers with a gap above the previous bin's bound and up to ``up_to_seconds``."""

    up_to_seconds: float | None  # None: everything above
    count: int


class PartitionGaps(MeasureModel):
    """Handovers of partitions: last record by the old owner to the first by the new one.

    Counted are partitions handed over to a pod of another name, as the ledger has their work. A
    StatefulSet's pod that comes back under its name to its own partitions does not count.
    """

    handovers: int
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None
    max_partition: int | None
    histogram: tuple[GapBin, ...]


@dataclass(frozen=True, slots=True)
class Handover:
    """A partition went from one pod to another."""

    partition: int
    next_done_at: int
    gap_seconds: float


def partition_gaps(handovers: Sequence[Handover]) -> PartitionGaps:
    """Return the histogram of the gaps and its percentiles."""
    gaps = [max(0.0, handover.gap_seconds) for handover in handovers]
    widest = max(handovers, key=lambda handover: handover.gap_seconds, default=None)
    return PartitionGaps(
        handovers=len(gaps),
        p50_seconds=percentile(gaps, 50),
        p95_seconds=percentile(gaps, 95),
        max_seconds=max(gaps, default=None),
        max_partition=None if widest is None else widest.partition,
        histogram=tuple(
            GapBin(up_to_seconds=bound, count=count)
            for bound, count in histogram(gaps, BOUNDS_SECONDS)
        ),
    )


class StepCosts(MeasureModel):
    """The dips of the episodes of one kind; None: there was none with work, or one is unknown."""

    steps: int = 0  # with work to lose
    idle_steps: int = 0  # without
    mean_dip_percent: float | None = None
    max_dip_percent: float | None = None
    mean_area_seconds: float | None = None
    max_area_seconds: float | None = None
    max_recovery_seconds: float | None = None

    @classmethod
    def of(cls, episodes: Iterable[RebalanceEpisode]) -> StepCosts:
        """Return the summary of episodes."""
        own = list(episodes)
        busy = [episode for episode in own if episode.reason not in NO_WORK_REASONS]
        dips = [episode.dip_percent for episode in busy]
        areas = [episode.area_seconds for episode in busy]
        return cls(
            steps=len(busy),
            idle_steps=len(own) - len(busy),
            mean_dip_percent=of_all(dips, fmean),
            max_dip_percent=of_all(dips, max),
            mean_area_seconds=of_all(areas, fmean),
            max_area_seconds=of_all(areas, max),
            max_recovery_seconds=of_all([episode.recovery_seconds for episode in busy], max),
        )


def of_all(
    values: Sequence[float | None], summarise: Callable[[list[float]], float]
) -> float | None:
    """Return the summary of all values; None if there is none, or if one is not known."""
    known = [value for value in values if value is not None]
    return summarise(known) if known and len(known) == len(values) else None
