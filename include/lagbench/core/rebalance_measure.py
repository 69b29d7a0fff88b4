"""Rebalance episodes with their dips, and the summary over the scale steps."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures import (
    NANOSECONDS,
    PartitionGaps,
    RebalanceEpisode,
    Rebalances,
    ReplicaChange,
)
from lagbench.core.rate_dip import NO_WORK_REASONS, RateSeries, rate_dip
from lagbench.core.rebalance import EpisodeSpan, episode_trigger
from lagbench.core.scaling_measures import RebalanceProtocol


def rebalance_episodes(
    spans: Sequence[EpisodeSpan],
    rate: RateSeries,
    changes: Sequence[ReplicaChange],
    protocol: RebalanceProtocol | None,
) -> tuple[RebalanceEpisode, ...]:
    """Return the episodes of ``spans`` (ascending) with trigger and dip."""
    return tuple(
        _episode(
            number,
            span,
            spans[number].started_at if number < len(spans) else None,
            rate,
            changes=changes,
            protocol=protocol,
        )
        for number, span in enumerate(spans, start=1)
    )


def rebalances(episodes: Sequence[RebalanceEpisode], gaps: PartitionGaps | None) -> Rebalances:
    """Return the summary; a maximum or sum with a part that was not measured is None.

    A step without work to lose is left out of it, but not one that could not be measured.
    """
    steps = [episode for episode in episodes if episode.trigger in ("scale_up", "scale_down")]
    busy = [episode for episode in steps if episode.reason not in NO_WORK_REASONS]
    areas = _all_known([episode.dip_area_messages for episode in busy])
    return Rebalances(
        episodes=tuple(episodes),
        count=len(episodes),
        scale_step_count=len(steps),
        max_dip_percent=max(_all_known([e.dip_percent for e in busy]), default=None),
        total_dip_area_messages=sum(areas) if areas else None,
        max_recovery_seconds=max(_all_known([e.recovery_seconds for e in busy]), default=None),
        partition_gaps=gaps,
    )


def _all_known(values: Sequence[float | None]) -> list[float]:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _episode(
    number: int,
    span: EpisodeSpan,
    next_started_at: int | None,
    rate: RateSeries,
    *,
    changes: Sequence[ReplicaChange],
    protocol: RebalanceProtocol | None,
) -> RebalanceEpisode:
    trigger, text = episode_trigger(span, changes)
    dip = rate_dip(
        rate, started_at=span.started_at, ended_at=span.ended_at, next_started_at=next_started_at
    )
    unowned = ""
    if span.ended_at is None:
        unowned = f"partitions {list(span.unowned)} were left without an owner"
    return RebalanceEpisode(
        number=number,
        started_at=span.started_at,
        ended_at=span.ended_at,
        duration_seconds=None
        if span.ended_at is None
        else (span.ended_at - span.started_at) / NANOSECONDS,
        trigger=trigger,
        trigger_text=text,
        pods_joined=span.joined,
        pods_left=tuple(sorted({*span.left, *span.died})),
        members_before=span.members_before,
        members_after=span.members_after,
        protocol=protocol,
        partitions_moved=span.partitions_moved,
        mean_rate_before_per_second=dip.mean_rate_before_per_second,
        min_rate_per_second=dip.min_rate_per_second,
        dip_percent=dip.dip_percent,
        dip_area_messages=dip.area_messages,
        recovery_seconds=dip.recovery_seconds,
        observed_seconds=dip.observed_seconds,
        reason=dip.reason or unowned,
    )
