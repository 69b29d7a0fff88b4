"""The measures of a simulated cell, from its straight lines: exact, not sampled in time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

import numpy as np

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.measures import Reals
from lagbench.core.measures.replicas import ReplicaChange, mark_flips, mark_self_made
from lagbench.core.scenario.stream import Spike, load_spikes
from lagbench.core.simulation.fleet import ReplicaStep
from lagbench.core.simulation.outcome import SimulationMeasures
from lagbench.core.simulation.time_lag import time_lag_seconds
from lagbench.core.simulation.traffic import Traffic
from lagbench.core.simulation.world import World


def measure(
    world: World,
    *,
    until: float,
    slo_seconds: float,
    drained_records: float | None,
    started_replicas: int,
) -> SimulationMeasures:
    """Return the measures of [stream start, ``until``]; ``drained_records``: one threshold."""
    courses = world.backlog.courses(until)
    # A partition without lag has no breakpoints; second 0 is always measured.
    instants = np.unique(np.concatenate([[0.0], *(at for at, _ in courses)]))
    instants = instants[instants >= 0]
    lags = np.column_stack([np.interp(instants, at, lag) for at, lag in courses])
    totals: Reals = lags.sum(axis=1)
    steps = [step for step in world.fleet.steps if 0 <= step.at <= until]
    counts = [world.fleet.replicas_at(0.0), *(step.after for step in steps)]
    spikes = load_spikes(world.planned, started_replicas=started_replicas, pod_rate=world.pod_rate)
    changes = _changes(steps, spikes)
    planned_seconds = world.planned.duration_seconds
    time_lag = time_lag_seconds(world.traffic, instants, lags, planned_seconds)
    return SimulationMeasures(
        replica_changes=len(steps),
        flips=sum(change.is_flip for change in changes),
        self_made_flips=sum(change.is_self_made is True for change in changes),
        rebalances=sum(0 <= at <= until for at in world.fleet.rebalanced_at),
        pod_minutes=_pod_seconds(world, min(planned_seconds, until)) / 60,
        pod_minutes_in_all=_pod_seconds(world, until) / 60,
        max_replicas=max(counts),
        peak_lag_records=float(totals.max()),
        time_lag_p50_seconds=time_lag.p50,
        time_lag_p99_seconds=time_lag.p99,
        reaction_seconds=_reaction_seconds(world, steps, spikes),
        seconds_over_slo=seconds_over(world.traffic, instants, lags, slo_seconds),
        drain_seconds=_drain_seconds(spikes, instants, totals, drained_records),
        settled_seconds=max(planned_seconds, *(step.at for step in steps), 0.0),
        watched_seconds=until,
    )


def _changes(steps: list[ReplicaStep], spikes: Sequence[Spike]) -> list[ReplicaChange]:
    changes = [
        ReplicaChange(
            at=round(step.at * NS_PER_SECOND),
            replicas_before=step.before,
            replicas_after=step.after,
            by=step.by,
            reason="",
            precision_seconds=0.0,
            is_reversal=False,
            is_flip=False,
        )
        for step in steps
    ]
    ended_at = round(spikes[-1].end_seconds * NS_PER_SECOND) if spikes else None
    periods = [
        (round(spike.start_seconds * NS_PER_SECOND), round(spike.end_seconds * NS_PER_SECOND))
        for spike in spikes
    ]
    return mark_self_made(mark_flips(changes, ended_at), periods)


def _pod_seconds(world: World, until: float) -> float:
    """Return the time of all pods from created to gone, as ``pod_time`` counts it."""
    stop_seconds = world.environment.stop_seconds
    total = 0.0
    for pod in world.fleet.pods:
        gone_at = until if pod.stopped_at is None else min(pod.stopped_at + stop_seconds, until)
        total += max(0.0, gone_at - max(pod.created_at, 0.0))
    return total


def _reaction_seconds(
    world: World, steps: list[ReplicaStep], spikes: Sequence[Spike]
) -> float | None:
    """Return the slowest reaction to a spike, of those after whose start pods were added."""
    found = []
    ends = [*(spike.start_seconds for spike in spikes[1:]), inf]
    for spike, end in zip(spikes, ends, strict=False):
        started = spike.start_seconds
        rise = next((s.at for s in steps if started <= s.at < end and s.after > s.before), None)
        if rise is None:
            continue
        working = [
            pod.assigned_at
            for pod in world.fleet.pods
            if pod.created_at >= rise and pod.assigned_at is not None
        ]
        if working:
            found.append(min(working) - started)
    return max(found, default=None)


def _drain_seconds(
    spikes: Sequence[Spike], instants: Reals, totals: Reals, threshold: float | None
) -> float | None:
    if not spikes or threshold is None:
        return None
    ended = spikes[-1].end_seconds
    if float(np.interp(ended, instants, totals)) <= threshold:
        return 0.0
    for index in range(1, len(instants)):
        if instants[index] <= ended or totals[index] > threshold:
            continue
        start, before = float(instants[index - 1]), float(totals[index - 1])
        share = (before - threshold) / (before - float(totals[index]))
        return start + share * (float(instants[index]) - start) - ended
    return None


def seconds_over(traffic: Traffic, instants: Reals, lags: Reals, limit_seconds: float) -> float:
    """Return how long the oldest waiting message of any partition was older than the limit.

    It is, while more waits than has arrived within the limit. ``lags`` is [instant, partition].
    """
    starts = np.array([*traffic.starts, *(at for at, _ in traffic.growths)])
    low, high = float(instants[0]), float(instants[-1])
    grid = np.concatenate([instants, starts, starts + limit_seconds])
    grid = np.unique(grid[(grid >= low) & (grid <= high)])
    recent = traffic.counts_at(grid) - traffic.counts_at(grid - limit_seconds)
    left, span = grid[:-1], np.diff(grid)
    prefix, suffix = np.zeros(len(left)), np.zeros(len(left))
    for place, (column, share) in enumerate(zip(lags.T, traffic.shares, strict=True)):
        came = share * recent
        if traffic.growths:
            of_partition = partial(traffic.records_of, place)
            came = of_partition(grid) - of_partition(grid - limit_seconds)
        excess = np.interp(grid, instants, column) - came
        excess[np.abs(excess) < 1e-6] = 0.0
        if excess.max() <= 0.0:
            continue
        start, end = excess[:-1], excess[1:]
        with np.errstate(divide="ignore", invalid="ignore"):
            zero = np.clip(start / (start - end), 0.0, 1.0)
        # Between two grid points the excess is straight, so it is above zero at one end at most.
        is_whole = (start >= 0) & (end >= 0) & (start + end > 0)
        prefix = np.maximum(prefix, np.where(is_whole, 1.0, np.where(start > 0, zero, 0.0)))
        suffix = np.maximum(suffix, np.where(is_whole, 1.0, np.where(end > 0, 1.0 - zero, 0.0)))
    return float((span * np.minimum(prefix + suffix, 1.0)).sum())
