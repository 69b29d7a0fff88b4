"""Compute the rebalance measures of a run: episodes with their dips, and standstills."""

from __future__ import annotations

import numpy as np

from lagbench.core.measures.evidence.series import BIN_NS
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.rebalance.partition_gaps import partition_gaps
from lagbench.core.measures.rebalance.standstill import Standstill, asleep_periods, standstill
from lagbench.core.measures.rebalance.summary import (
    GroupWork,
    Rebalances,
    rebalance_episodes,
    rebalances,
    unanswered_steps,
)
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.measures.scaling import Group
from lagbench.core.scenario.actions import downstream_pace
from lagbench.core.scenario.balancer import rebalance_protocol


def rebalance_measures(
    run: RunEvidence, group: Group, from_at: int, until_at: int
) -> tuple[Rebalances, Standstill]:
    """Return the rebalances and standstills of the measurement window."""
    cost_seconds = max(run.scenario.consumer.message_ms / 1000, run.work.message_seconds or 0.0)
    slowness, pace = None, downstream_pace(run.scenario.actions)
    if not pace.is_even and run.load.stream_started_at is not None:
        starts_at = run.rate.started_at + BIN_NS * np.arange(run.rate.processed.size)
        seconds = (starts_at - run.load.stream_started_at) / NANOSECONDS
        slowness = np.array([pace.factor_at(second) for second in seconds.tolist()])
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
        slowness=slowness,
    )
    protocols = {rebalance_protocol(balancer) for balancer in run.balancers}
    protocol = protocols.pop() if len(protocols) == 1 else None  # an action moves the group
    episodes = rebalance_episodes(group.spans, found, protocol)
    asleep = []
    if run.limits.floor_replicas == 0:
        asleep = asleep_periods(run.events, run.replica_samples, group.changes, until_at)
    return rebalances(
        episodes,
        partition_gaps([each for each in run.handovers if each.next_done_at <= until_at]),
        unanswered=unanswered_steps(episodes, found),
        detail=run.work.note,
    ), standstill(
        run.rate,
        run.work,
        from_at=from_at,
        until_at=until_at,
        message_seconds=cost_seconds,
        asleep=asleep,
    )
