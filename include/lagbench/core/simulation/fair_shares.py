"""How a pod's work spreads over its partitions: evenly, and no more to one than it has."""

from __future__ import annotations

import numpy as np

from lagbench.core.statistics import Ints, Reals


def fair_service(arrivals: Reals, lag: Reals, owner: Ints, pods: int, pod_rate: float) -> Reals:
    """Return the rate at which each partition is worked on.

    ``owner`` is the pod of each partition, -1 for none. A partition without lag needs no more than
    what arrives; what it leaves goes evenly to the pod's others (max-min fairness, which is what a
    worker that takes from one queue after the other comes to).
    """
    served = np.zeros(len(arrivals))
    if pods == 0:
        return served
    is_open = owner >= 0
    demand = np.where(lag > 0.0, np.inf, arrivals)
    spare = np.full(pods, pod_rate)
    while is_open.any():
        owners = owner[is_open]
        level = spare / np.maximum(np.bincount(owners, minlength=pods), 1)
        closing = is_open & (demand <= level[owner])
        if not closing.any():
            served[is_open] = level[owners]
            break
        served[closing] = demand[closing]
        spent = np.bincount(owner[closing], weights=demand[closing], minlength=pods)
        spare = np.maximum(spare - spent, 0.0)
        is_open &= ~closing
    return served


def keeps_up(arrivals: Reals, owner: Ints, pods: int, pod_rate: float) -> bool:
    """Say whether every partition has a pod and no pod gets more than it can do."""
    if pods == 0 or int(owner.min()) < 0:
        return not arrivals.any()
    return float(np.bincount(owner, weights=arrivals, minlength=pods).max()) <= pod_rate
