"""Summarise the dips of one kind of episode: steps up, steps down, or those of the run's actions.

The mean over the steps of a run varies less from run to run than its worst step, so cells are
compared by it. A step without work to lose is left out. If the dip of a step was not measured, the
mean is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from lagbench.core.measures.model import MeasureModel
from lagbench.core.measures.rebalance.episodes import EpisodeTrigger, RebalanceEpisode
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


def step_costs(episodes: Sequence[RebalanceEpisode], trigger: EpisodeTrigger) -> StepCosts:
    """Return the summary of the episodes with that trigger."""
    own = [episode for episode in episodes if episode.trigger == trigger]
    busy = [episode for episode in own if episode.reason not in NO_WORK_REASONS]
    dips = [episode.dip_percent for episode in busy]
    areas = [episode.area_seconds for episode in busy]
    return StepCosts(
        steps=len(busy),
        idle_steps=len(own) - len(busy),
        mean_dip_percent=_of_all(dips, fmean),
        max_dip_percent=_of_all(dips, max),
        mean_area_seconds=_of_all(areas, fmean),
        max_area_seconds=_of_all(areas, max),
        max_recovery_seconds=_of_all([episode.recovery_seconds for episode in busy], max),
    )


def _of_all(
    values: Sequence[float | None], summarise: Callable[[list[float]], float]
) -> float | None:
    """Return the summary of all values; None if there is none, or if one is not known."""
    known = [value for value in values if value is not None]
    return summarise(known) if known and len(known) == len(values) else None
