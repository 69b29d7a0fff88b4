"""Compute the rebalance measures of a run: episodes with their dips, and standstills."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lagbench.core.measures.evidence import BIN_NS
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.rebalance import (
    GroupWork,
    RebalanceEpisode,
    Rebalances,
    Standstill,
    asleep_periods,
    partition_gaps,
    rebalance_episodes,
    rebalances,
    standstill,
    unanswered_steps,
)
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.measures.scaling import Group
from lagbench.core.measures.statistics import Reals
from lagbench.core.scenario import downstream_pace, rebalance_protocol


@dataclass(frozen=True, slots=True)
class RebalanceMeasures:
    """The cost of rebalances, and the standstills of the group."""

    episodes: tuple[RebalanceEpisode, ...]
    rebalances: Rebalances
    standstill: Standstill


def _slowness(run: RunEvidence) -> Reals | None:
    """Return by bin of the rate how many times a write cost what the settings say."""
    pace = downstream_pace(run.scenario.actions)
    if pace.is_even or run.load.stream_started_at is None:
        return None
    starts_at = run.rate.started_at + BIN_NS * np.arange(run.rate.processed.size)
    seconds = (starts_at - run.load.stream_started_at) / NANOSECONDS
    return np.array([pace.factor_at(second) for second in seconds.tolist()])


def rebalance_measures(
    run: RunEvidence, group: Group, from_at: int, until_at: int
) -> RebalanceMeasures:
    """Return the rebalances and standstills of the measurement window."""
    settings = run.scenario.consumer
    cost_seconds = max(settings.message_ms / 1000, run.work.message_seconds or 0.0)
    found = GroupWork(
        rate=run.rate,
        work=run.work,
        events=run.events,
        timelines=run.timelines,
        changes=group.changes,
        from_at=from_at,
        until_at=until_at,
        nominal_rate_per_second=run.pod_rate_per_second,
        message_seconds=cost_seconds,
        hidden=run.hidden,
        slowness=_slowness(run),
    )
    protocols = {rebalance_protocol(balancer) for balancer in run.balancers}
    protocol = protocols.pop() if len(protocols) == 1 else None  # an action moves the group
    episodes = rebalance_episodes(group.spans, found, protocol)
    handovers = [handover for handover in run.handovers if handover.next_done_at <= until_at]
    asleep = []
    if run.limits.floor_replicas == 0:
        asleep = asleep_periods(run.events, run.replica_samples, group.changes, until_at)
    return RebalanceMeasures(
        episodes,
        rebalances(
            episodes,
            partition_gaps(handovers),
            unanswered=unanswered_steps(episodes, found),
            detail=run.work.note,
        ),
        standstill(
            run.rate,
            run.work,
            from_at=from_at,
            until_at=until_at,
            message_seconds=cost_seconds,
            asleep=asleep,
        ),
    )
