"""The measures of a simulated cell, from its straight lines: exact, not sampled."""

from __future__ import annotations

import numpy as np

from lagbench.core.flapping import mark_flips
from lagbench.core.instants import NS_PER_SECOND
from lagbench.core.scaling_measures import ReplicaChange
from lagbench.core.simulation.fleet import ReplicaStep
from lagbench.core.simulation.outcome import SimulationMeasures
from lagbench.core.simulation.traffic import Traffic
from lagbench.core.simulation.world import World
from lagbench.core.statistics import Reals


def measure(
    world: World, *, until: float, slo_seconds: float, drained_records: float | None
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
    return SimulationMeasures(
        scaling_events=len(steps),
        flips=sum(change.is_flip for change in _changes(steps, world.traffic)),
        rebalances=sum(0 <= at <= until for at in world.fleet.rebalanced_at),
        pod_minutes=_pod_seconds(world, until) / 60,
        max_replicas=max(counts),
        peak_lag_records=float(totals.max()),
        reaction_seconds=_reaction_seconds(world, steps),
        seconds_over_slo=seconds_over(world.traffic, instants, lags, slo_seconds),
        drain_seconds=_drain_seconds(world.traffic, instants, totals, drained_records),
        watched_seconds=until,
    )


def _changes(steps: list[ReplicaStep], traffic: Traffic) -> list[ReplicaChange]:
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
    ends = [step.at_ns for step in traffic.load.steps if step.step == "spike_end"]
    return mark_flips(changes, ends[-1] if ends else None)


def _pod_seconds(world: World, until: float) -> float:
    """Return the time of all pods from created to gone, as ``pod_time`` counts it."""
    stop_seconds = world.surroundings.stop_seconds
    total = 0.0
    for pod in world.fleet.pods:
        gone_at = until if pod.stopped_at is None else min(pod.stopped_at + stop_seconds, until)
        total += max(0.0, gone_at - max(pod.created_at, 0.0))
    return total


def _reaction_seconds(world: World, steps: list[ReplicaStep]) -> float | None:
    starts = [s.at_ns / NS_PER_SECOND for s in world.traffic.load.steps if s.step == "spike_start"]
    if not starts:
        return None
    rise = next((s.at for s in steps if s.at >= starts[0] and s.after > s.before), None)
    if rise is None:
        return None
    working = [
        pod.assigned_at
        for pod in world.fleet.pods
        if pod.created_at >= rise and pod.assigned_at is not None
    ]
    return min(working) - starts[0] if working else None


def _drain_seconds(
    traffic: Traffic, instants: Reals, totals: Reals, threshold: float | None
) -> float | None:
    ends = [s.at_ns / NS_PER_SECOND for s in traffic.load.steps if s.step == "spike_end"]
    if not ends or threshold is None:
        return None
    if float(np.interp(ends[-1], instants, totals)) <= threshold:
        return 0.0
    for index in range(1, len(instants)):
        if instants[index] <= ends[-1] or totals[index] > threshold:
            continue
        start, before = float(instants[index - 1]), float(totals[index - 1])
        share = (before - threshold) / (before - float(totals[index]))
        return start + share * (float(instants[index]) - start) - ends[-1]
    return None


def seconds_over(traffic: Traffic, instants: Reals, lags: Reals, limit_seconds: float) -> float:
    """Return how long the oldest waiting message of any partition was older than the limit.

    It is, while more waits than has arrived within the limit. ``lags`` is [instant, partition].
    """
    starts = np.array(traffic.starts)
    low, high = float(instants[0]), float(instants[-1])
    grid = np.concatenate([instants, starts, starts + limit_seconds])
    grid = np.unique(grid[(grid >= low) & (grid <= high)])
    recent = traffic.counts_at(grid) - traffic.counts_at(grid - limit_seconds)
    left, span = grid[:-1], np.diff(grid)
    prefix, suffix = np.zeros(len(left)), np.zeros(len(left))
    for column, share in zip(lags.T, traffic.shares, strict=True):
        excess = np.interp(grid, instants, column) - share * recent
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
