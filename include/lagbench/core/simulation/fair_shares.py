"""How a pod's work spreads over its partitions: evenly, and no more to one than it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from lagbench.core.statistics import Ints, Reals


def share_fairly(
    served: list[float], demand: Sequence[float], held: Iterable[Sequence[int]], pod_rate: float
) -> None:
    """Write into ``served`` the rate at which each partition of some pods is worked on.

    ``held`` is the partitions of each such pod, ``demand`` what a partition could use: no bound
    while it has lag, else what arrives. What it leaves goes evenly to the pod's others (max-min
    fairness, which is what a worker that takes from one queue after the other comes to).
    """
    for partitions in held:
        spare, left = pod_rate, len(partitions)
        # Smallest demand first: what it leaves raises the share of all that follow.
        for partition in sorted(partitions, key=demand.__getitem__):
            rate, share = demand[partition], spare / left
            rate = min(rate, share)
            served[partition] = rate
            spare -= rate
            left -= 1


def keeps_up(arrivals: Reals, owner: Ints, pods: int, pod_rate: float) -> bool:
    """Say whether every partition has a pod and no pod gets more than it can do."""
    if pods == 0 or int(owner.min()) < 0:
        return not arrivals.any()
    return float(np.bincount(owner, weights=arrivals, minlength=pods).max()) <= pod_rate
