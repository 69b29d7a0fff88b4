"""Check whether the added pods cleared more than their rebalances cost.

The window runs from the first rise of the desired replicas after the load step to the drained lag
(or the end of the run). The base rate is the mean rate of the 10 s before that rise, when the
existing pods were already behind. The net is everything done in the window minus base rate x its
length: the work that the added pods cleared, dips included. The messages lost to the dips of the
scale-up episodes in the window are added to it: cleared = net + lost. Pod-minutes are those of
pods created after the rise, to the end of the window. The scale-out has paid for itself when the
net is above zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.measures.rebalance.episodes import RebalanceEpisode
from lagbench.core.measures.rebalance.rate_dip import mean_rate_before
from lagbench.core.measures.replicas.steps import ReplicaChange


class PaidForItself(MeasureModel):
    """The messages that the added pods cleared, compared with the cost of their rebalances."""

    started_at: int | None = None
    ended_at: int | None = None
    base_rate_per_second: float | None = None  # before the first added pod worked
    cleared_records: float | None = None  # by the added pods, before the dips are subtracted
    lost_to_dips_records: float | None = None
    net_records: float | None = None
    added_pod_minutes: float | None = None
    net_records_per_pod_minute: float | None = None
    has_paid: bool | None = None
    reason: str  # why it was not measured; empty when it was


def paid_for_itself(
    rate: RateSeries,
    changes: Sequence[ReplicaChange],
    episodes: Sequence[RebalanceEpisode],
    timelines: Iterable[PodTimeline] | None,
    *,
    spike_started_at: int | None,
    ended_at: int,
) -> PaidForItself:
    """Return the balance of the scale-out after ``spike_started_at`` up to ``ended_at``.

    ``timelines`` None: they are not known of all pods, so the added pods' time is not known.
    """
    rises = [c.at for c in changes if c.replicas_after > c.replicas_before]
    starts = [at for at in rises if spike_started_at is not None and at >= spike_started_at]
    if not starts:
        return PaidForItself(reason="the policy added no pod after a load step")
    start = starts[0]
    base = mean_rate_before(rate, start)
    if base is None or ended_at <= start:
        return PaidForItself(reason="no rate before the first rise, or the run ended with it")
    seconds = (ended_at - start) / NANOSECONDS
    net = rate.processed_between(start, ended_at) - base * seconds
    areas = [
        episode.dip_area_messages
        for episode in episodes
        if episode.trigger == "scale_up" and start <= episode.started_at < ended_at
    ]
    known = [area for area in areas if area is not None]
    lost = sum(known) if len(known) == len(areas) else None
    minutes = None
    if timelines is not None:
        added = [pod for pod in timelines if pod.created_at >= start - NANOSECONDS]
        minutes = sum(pod.seconds_between(start, ended_at) for pod in added) / 60
    return PaidForItself(
        started_at=start,
        ended_at=ended_at,
        base_rate_per_second=base,
        cleared_records=None if lost is None else net + lost,
        lost_to_dips_records=lost,
        net_records=net,
        added_pod_minutes=minutes,
        net_records_per_pod_minute=net / minutes if minutes else None,
        has_paid=net > 0,
        reason="" if lost is not None else "the dip of a scale step was not measured",
    )
