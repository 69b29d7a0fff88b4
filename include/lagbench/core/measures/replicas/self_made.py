"""Distinguish a self-made flip, which the policy makes by itself, from one that the load makes.

The load turns up at the start of each spike and down at its end. A change of the replicas follows a
turn of the same direction that came before it and that no change has followed yet. A flip that
follows no turn is self-made: the replicas reversed, and the load did not. Each turn accounts for
one reversal, however late the policy answers it. Noise without a spike does not turn the load.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures.replicas.steps import ReplicaChange


def mark_self_made(
    changes: Sequence[ReplicaChange], spikes: Sequence[tuple[int, int]]
) -> list[ReplicaChange]:
    """Return the changes, in order of time, with each flip marked as self-made or not.

    :param spikes: start and end of each spike in unix nanoseconds, in order of time.
    """
    turns = [turn for start, end in spikes for turn in ((start, 1), (end, -1))]
    marked: list[ReplicaChange] = []
    for change in changes:
        heading = 1 if change.replicas_after > change.replicas_before else -1
        came = [
            place for place, (at, way) in enumerate(turns) if way == heading and at <= change.at
        ]
        if came:
            del turns[: came[-1] + 1]
        is_self_made = not came if change.is_flip else None
        marked.append(change.model_copy(update={"is_self_made": is_self_made}))
    return marked
