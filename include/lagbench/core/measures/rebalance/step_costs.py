"""Summarise the dips of one kind of episode: steps up, steps down, or those of the run's actions.

The mean over the steps of a run varies less from run to run than its worst step, so cells are
compared by it. A step without work to lose is left out. If the dip of a step was not measured, the
mean is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from lagbench.core.measures.model import MeasureModel
from lagbench.core.measures.rebalance.episodes import RebalanceEpisode
from lagbench.core.measures.rebalance.rate_dip import NO_WORK_REASONS


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
