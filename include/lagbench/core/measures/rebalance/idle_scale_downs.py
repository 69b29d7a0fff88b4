"""Check whether the scale-downs of a run met a group with work.

A group that processes nothing in the 5 s before and after the replicas were lowered loses nothing:
such a run does not show the cost of a scale-down.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures.evidence.series import RateSeries
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas.steps import ReplicaChange

AROUND_SECONDS = 5


def idle_scale_downs_text(changes: Sequence[ReplicaChange], rate: RateSeries) -> str:
    """Report that all scale-downs happened in an idle group; empty if any did not, or none came."""
    downs = [change.at for change in changes if change.replicas_after < change.replicas_before]
    reach = AROUND_SECONDS * NANOSECONDS
    if not downs or any(rate.processed_between(at - reach, at + reach) for at in downs):
        return ""
    return (
        "all scale-downs happened in an idle group: that nothing was lost or done twice in them "
        "proves nothing about a scale-down under load"
    )
