"""A fluid model of the backlog of each partition while replicas follow the lag."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lagbench.core.scenario.stream import OfferedLoad

# The HPA looks every 15 s; 24 members took 2.6 to 3.1 s to join, a pod's start and the first commit
# the rest.
HPA_SYNC_SECONDS = 15.0
JOIN_SECONDS = 5.0
_STEP_SECONDS = 0.5
# A backlog that has not drained after a day is said never to drain.
_HORIZON_SECONDS = 86_400.0
# Without a lag threshold "drained" is what the lab's smallest one would call so.
_DRAINED_WITHOUT_THRESHOLD = 1000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReplicaSteps:
    """How far the replicas can follow: all that are useful (they never exceed the partitions)."""

    floor: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Highest total lag, and when it was last above the threshold (infinite: for ever)."""

    peak_lag: int
    drained_at: float


def predict_backlog(
    load: OfferedLoad,
    shares: Floats,
    *,
    pod_rate: float,
    replicas: ReplicaSteps,
    lag_threshold: int | None,
) -> Backlog:
    """Return the backlog's course, with replicas one sync and one join behind the lag.

    A partition is read by one pod, so it drains at one pod's rate at most; all together drain at
    the rate of all pods. Scale-down is left out: it begins when the lag is gone.
    """
    lag = np.zeros(len(shares))
    count, wishes = float(replicas.floor), _Wishes(replicas, lag_threshold)
    threshold = lag_threshold if lag_threshold is not None else _DRAINED_WITHOUT_THRESHOLD
    peak, drained_at, second = 0.0, 0.0, 0.0
    while second < load.duration_seconds or lag.sum() > threshold:
        if second >= load.duration_seconds and (pod_rate <= 0 or second > _HORIZON_SECONDS):
            return Backlog(round(peak), math.inf)
        arrived = load.planned_count(second + _STEP_SECONDS) - load.planned_count(second)
        waiting = lag + shares * arrived
        lag = waiting - _served(waiting, pod_rate * _STEP_SECONDS, count)
        second += _STEP_SECONDS
        total = float(lag.sum())
        peak = max(peak, total)
        if total > threshold:
            drained_at = second
        count = max(count, wishes.granted(second, total))
    return Backlog(round(peak), drained_at)


class _Wishes:
    """What each sync wished, granted one join later; the sync meets the step half-way at best."""

    def __init__(self, replicas: ReplicaSteps, lag_threshold: int | None) -> None:
        self._replicas, self._threshold = replicas, lag_threshold
        self._next_sync = HPA_SYNC_SECONDS / 2
        self._due: list[tuple[float, int]] = []

    def granted(self, second: float, lag: float) -> float:
        """Return the replicas that work at ``second``."""
        if self._threshold is not None and second >= self._next_sync:
            self._next_sync += HPA_SYNC_SECONDS
            wish = min(math.ceil(lag / self._threshold), self._replicas.ceiling)
            self._due.append((second + JOIN_SECONDS, wish))
        ready = [wish for at, wish in self._due if at <= second]
        self._due = [item for item in self._due if item[0] > second]
        return float(max([self._replicas.floor, *ready]))


def _served(waiting: Floats, pod_step: float, count: float) -> Floats:
    """Return what is processed in one step: one pod's work a partition, ``count`` pods' in all."""
    served = np.minimum(waiting, pod_step)
    total = float(served.sum())
    if total > count * pod_step:
        served = served * (count * pod_step / total)
    return served
