"""Spread a pod's work over its partitions: evenly, and at most the demand of each."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf


def share_fairly(demand: Mapping[int, float], pod_rate: float) -> dict[int, float]:
    """Return the rate at which each partition of one pod is worked on.

    ``demand`` is what each partition could use: no bound while it has lag, else its arrivals. The
    rest goes evenly to the pod's others (max-min fairness: the same as a worker that takes from one
    queue after the other).
    """
    if demand and min(demand.values()) == inf:
        return dict.fromkeys(demand, pod_rate / len(demand))
    served: dict[int, float] = {}
    spare, left = pod_rate, len(demand)
    # Smallest demand first: what it leaves raises the share of all that follow.
    for partition in sorted(demand, key=demand.__getitem__):
        served[partition] = rate = min(demand[partition], spare / left)
        spare -= rate
        left -= 1
    return served
