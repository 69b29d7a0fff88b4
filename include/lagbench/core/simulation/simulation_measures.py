"""The measures of a simulated cell, from its straight lines: exact, not sampled in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from math import inf, isfinite, isnan
from statistics import median
from typing import Any, Literal, NamedTuple

import numpy as np

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import Ints, NamedMeasure, Reals
from lagbench.core.measures.rebalance_episodes import QUIET_SECONDS
from lagbench.core.measures.replica_changes import mark_flips, mark_self_made
from lagbench.core.measures.replica_steps import ReplicaChange
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.offered_load import Spike, load_spikes
from lagbench.core.simulation.backlog import Traffic
from lagbench.core.simulation.simulated_world import ReplicaStep, World

Lag = tuple[Reals, Reals]
"""Instants in seconds of the stream, and the total lag at each."""
MESSAGES = 1_000
"""Messages of each partition whose wait is computed: a tenth of a percentile apart."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """One row per HPA sync and per change of replicas; seconds from the start of the stream."""

    second: Reals
    lag_records: Reals
    spec_replicas: Ints
    ready_pods: Ints
    wish: Reals
    """The replicas that the metrics proposed before any limit; NaN: no metric was consulted."""


@dataclass(frozen=True, slots=True)
class SimulationMeasures:
    """The measures of one simulated cell; None: the question does not arise, or never came true."""

    replica_changes: int
    flips: int
    self_made_flips: int
    rebalances: int
    pod_minutes: float
    """In the planned window, as in a run."""
    pod_minutes_in_all: float
    """To the end of what is watched, so that it holds what a slow scale-down costs."""
    max_replicas: int
    spike_replicas: int | None
    """Wanted when the first spike starts; None: there is no spike."""
    peak_lag_records: float
    """As the recorder reads it, with what is done and not yet committed."""
    time_lag_p50_seconds: float | None
    """Of the messages of the planned window; None: half of them were not done."""
    time_lag_p99_seconds: float | None
    """Likewise; None: more than 1 % of them were not done."""
    reaction_seconds: float | None
    """Start of a spike until a new pod is Ready and has partitions, of several the slowest; None:
    no spike brought a pod."""
    seconds_over_slo: float
    """Time for which a message older than the SLO was waiting."""
    drain_seconds: float | None
    """End of the last spike until total lag is at most one threshold."""
    settled_seconds: float
    """The last change of the replicas, at least the end of the planned window."""
    watched_seconds: float


# A run ends when the replicas are settled, and has no sample of the ages of waiting messages.
_SIMULATED_ONLY: dict[str, NamedMeasure] = {
    "pod_minutes_in_all": NamedMeasure(
        "pod_minutes_in_all",
        "Pod time with the base load after it",
        "pod-minutes",
        1,
        lambda found: found.pod_minutes_in_all,
    ),
    "seconds_over_slo": NamedMeasure(
        "seconds_over_slo", "Time over the SLO", "s", 0, lambda found: found.seconds_over_slo
    ),
}
COMPARED: tuple[NamedMeasure, ...] = tuple(
    _SIMULATED_ONLY.get(name) or NAMED[name]
    for name in (
        "replica_changes",
        "flips",
        "self_made_flips",
        "rebalances",
        "pod_minutes",
        "pod_minutes_in_all",
        "max_replicas",
        "peak_lag_records",
        "time_lag_p99_seconds",
        "reaction_seconds",
        "seconds_over_slo",
        "drain_seconds",
    )
)
"""Policies are compared by these, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulated cell."""

    scenario: str
    policy: str
    seed: int
    slo_seconds: float
    measures: SimulationMeasures
    timeline: Timeline
    total_lag: Lag
    """The instants at which it bends, and its value there; not in the JSON."""
    fidelity: Literal["simulated"] = "simulated"

    def to_json(self, *, with_timeline: bool = True) -> dict[str, Any]:
        """Return everything as plain data; a missing proposal is None."""
        line = self.timeline
        plain: dict[str, Any] = {
            "scenario": self.scenario,
            "policy": self.policy,
            "seed": self.seed,
            "fidelity": self.fidelity,
            "slo_seconds": self.slo_seconds,
            "measures": asdict(self.measures),
        }
        if with_timeline:
            plain["timeline"] = {
                "second": [round(second, 3) for second in line.second.tolist()],
                "lag_records": [round(lag) for lag in line.lag_records.tolist()],
                "spec_replicas": line.spec_replicas.tolist(),
                "ready_pods": line.ready_pods.tolist(),
                "wish": [None if isnan(wish) else int(wish) for wish in line.wish.tolist()],
            }
        return plain


@dataclass(frozen=True, slots=True)
class Spread:
    """A measure over several simulations; ``missing`` of them had no value and count in none."""

    median: float | None
    low: float | None
    high: float | None
    missing: int = 0

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread:
        """Return the spread of values; None: there was none."""
        known = [float(value) for value in values if value is not None]
        missing = len(values) - len(known)
        if not known:
            return cls(None, None, None, missing)
        return cls(median(known), min(known), max(known), missing)

    def text(self, measure: NamedMeasure) -> str:
        """Return median and range as ``measure`` is shown; a dash if there is no value."""
        reported = measure.spread(self.median, self.low, self.high)
        is_partial = self.missing and self.median is not None
        return f"{reported}, none in {self.missing}" if is_partial else reported


def spreads(simulations: Sequence[Simulation]) -> dict[str, Spread]:
    """Return the spread of every measure, by its name."""
    return {
        field.name: Spread.of([getattr(one.measures, field.name) for one in simulations])
        for field in fields(SimulationMeasures)
    }


def lag_lines(world: World, until: float) -> tuple[Reals, Reals]:
    """Return the instants at which lag bends, and the lag of each partition there."""
    courses = world.backlog.courses(until)
    # A partition without lag has no breakpoints; second 0 is always measured.
    instants = np.unique(np.concatenate([[0.0], *(at for at, _ in courses)]))
    instants = instants[instants >= 0]
    return instants, np.column_stack([np.interp(instants, at, lag) for at, lag in courses])


def readings(world: World, instants: Reals, lags: Reals, until: float, phase: float) -> Lag:
    """Return the total lag as the recorder reads it, ``phase`` seconds after the start at first."""
    seconds = np.arange(phase, until, world.environment.reading_seconds)
    traffic, total = world.traffic, np.zeros(len(seconds))
    counts = traffic.counts_at(seconds)
    for place, column in enumerate(lags.T):
        commits = world.backlog.committed_at(place, seconds)
        waiting = np.interp(commits, instants, column)
        if traffic.growths:
            came = traffic.records_of(place, seconds) - traffic.records_of(place, commits)
        else:
            came = traffic.shares[place] * (counts - traffic.counts_at(commits))
        total += waiting + came
    return seconds, total


def measure(
    world: World,
    instants: Reals,
    lags: Reals,
    read: Lag,
    limits: PolicyLimits,
    *,
    until: float,
    slo_seconds: float,
) -> SimulationMeasures:
    """Return the measures of [stream start, ``until``]; ``limits``: of the first policy.

    :param instants: with ``lags`` as ``lag_lines`` returns them.
    :param read: what ``readings`` returns.
    """
    steps = [step for step in world.fleet.steps if 0 <= step.at <= until]
    counts = [world.fleet.replicas_at(0.0), *(step.after for step in steps)]
    started = limits.started_replicas
    spikes = load_spikes(world.planned, started_replicas=started, pod_rate=world.pod_rate)
    changes = _changes(steps, spikes)
    planned_seconds = world.planned.duration_seconds
    time_lag = time_lag_seconds(world.traffic, instants, lags, planned_seconds)
    return SimulationMeasures(
        replica_changes=len(steps),
        flips=sum(change.is_flip for change in changes),
        self_made_flips=sum(change.is_self_made is True for change in changes),
        rebalances=_episodes(world, until),
        pod_minutes=_pod_seconds(world, min(planned_seconds, until)) / 60,
        pod_minutes_in_all=_pod_seconds(world, until) / 60,
        max_replicas=max(counts),
        spike_replicas=world.fleet.replicas_at(spikes[0].start_seconds) if spikes else None,
        peak_lag_records=float(read[1].max()),
        time_lag_p50_seconds=time_lag.p50,
        time_lag_p99_seconds=time_lag.p99,
        reaction_seconds=_reaction_seconds(world, steps, spikes),
        seconds_over_slo=seconds_over(world.traffic, instants, lags, slo_seconds),
        drain_seconds=_drain_seconds(spikes, read, limits.lag_threshold_records),
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
        )
        for step in steps
    ]
    periods = [
        (round(spike.start_seconds * NS_PER_SECOND), round(spike.end_seconds * NS_PER_SECOND))
        for spike in spikes
    ]
    return mark_self_made(mark_flips(changes, periods[-1][1] if periods else None), periods)


def _episodes(world: World, until: float) -> int:
    """Return the rebalances as a run counts them: those with little time in between are one."""
    count, quiet_from = 0, -inf
    for start, end in world.fleet.rebalances:
        if start > until:
            break
        count += start > quiet_from and start >= 0
        quiet_from = max(quiet_from, end + QUIET_SECONDS)
    return count


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
        rises = [s.at for s in steps if started <= s.at < end and s.after > s.before]
        working = [
            pod.assigned_at
            for pod in world.fleet.pods
            if rises and pod.created_at >= rises[0] and pod.assigned_at is not None
        ]
        if working:
            found.append(min(working) - started)
    return max(found, default=None)


def _drain_seconds(spikes: Sequence[Spike], read: Lag, threshold: float | None) -> float | None:
    """Return the time from the end of the last spike to the first reading within the threshold."""
    if not spikes or threshold is None:
        return None
    (seconds, totals), ended = read, spikes[-1].end_seconds
    drained = np.flatnonzero((seconds >= ended) & (totals <= threshold))
    return float(seconds[drained[0]]) - ended if drained.size else None


class TimeLag(NamedTuple):
    """Percentiles in seconds; None: no message arrives, or that one was not done at the end."""

    p50: float | None
    p99: float | None


def time_lag_seconds(
    traffic: Traffic, instants: Reals, lags: Reals, planned_seconds: float
) -> TimeLag:
    """Return the waits, from arrival to done, of messages that arrive before ``planned_seconds``.

    A partition is done in the order of its arrivals, so its n-th message waited from the instant
    at which n had arrived until the one at which n were done. ``lags`` is [instant, partition].
    """
    starts = np.array([*traffic.starts, *(at for at, _ in traffic.growths)])
    grid = np.unique(np.concatenate([instants, starts, [planned_seconds]]))
    grid = grid[(grid >= instants[0]) & (grid <= instants[-1])]
    counts = traffic.counts_at(grid)
    waits, weights = [], []
    for place, column in enumerate(lags.T):
        came = traffic.shares[place] * counts
        if traffic.growths:
            came = traffic.records_of(place, grid)
        done = np.maximum.accumulate(came - np.interp(grid, instants, column))
        planned = float(np.interp(planned_seconds, grid, came))
        if planned <= 0:
            continue
        messages = planned * (np.arange(MESSAGES) + 0.5) / MESSAGES
        done_at = np.interp(messages, done, grid, right=np.inf)
        waits.append(done_at - np.interp(messages, came, grid))
        weights.append(planned / MESSAGES)
    if not waits:
        return TimeLag(None, None)
    every = np.concatenate(waits)
    order = np.argsort(every)
    summed = np.cumsum(np.repeat(weights, MESSAGES)[order])

    def percentile(share: float) -> float | None:
        found = float(every[order][np.searchsorted(summed, share * summed[-1])])
        return max(found, 0.0) if isfinite(found) else None

    return TimeLag(percentile(0.5), percentile(0.99))


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
