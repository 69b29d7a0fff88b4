"""Match pods to the replica changes that created or removed them.

A step of k replicas creates k pods, so pods are matched to steps in order, however long a node took
to start them: a pod belongs to the latest step before its creation that still lacks pods. A pod
without such a step was replaced or deleted by hand. A pod without a record from Kubernetes counts
from its first join. A pod is removed when it is asked to stop, else when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lagbench.core.measures.evidence.group_events import GroupEvent
from lagbench.core.measures.evidence.pod_timeline import PodTimeline
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.replicas.steps import ReplicaChange

STAMP_SLACK_SECONDS = 1.0
"""The longest delay of a stamp after its change."""


@dataclass(frozen=True, slots=True)
class ReplicaPods:
    """For each pod, the change that created it and the change that removed it."""

    added: Mapping[str, ReplicaChange] = field(default_factory=dict)
    removed: Mapping[str, ReplicaChange] = field(default_factory=dict)

    def of_step(self, change: ReplicaChange) -> frozenset[str]:
        """Return the pods that ``change`` created or removed."""
        both = (*self.added.items(), *self.removed.items())
        return frozenset(pod for pod, step in both if step is change)


def replica_pods(
    changes: Sequence[ReplicaChange],
    events: Sequence[GroupEvent],
    timelines: Mapping[str, PodTimeline],
) -> ReplicaPods:
    """Return the pods of ``changes``; ``events`` ascend by instant."""
    came = {event.pod: event.at for event in reversed(events)}
    came |= {pod: timeline.created_at for pod, timeline in timelines.items()}
    return ReplicaPods(
        _matched(_by(changes, 1), came), _matched(_by(changes, -1), _left(events, timelines))
    )


def earliest_at(change: ReplicaChange) -> int:
    """Return the earliest instant of the change: its stamp may follow the change itself.

    The autoscaler stamps after the API server's response. Pods were seen leaving 75 ms before it.
    """
    slack_seconds = max(change.precision_seconds, STAMP_SLACK_SECONDS)
    return change.at - round(slack_seconds * NANOSECONDS)


def _by(changes: Sequence[ReplicaChange], sign: int) -> list[ReplicaChange]:
    return [c for c in changes if (c.replicas_after - c.replicas_before) * sign > 0]


def _left(events: Sequence[GroupEvent], timelines: Mapping[str, PodTimeline]) -> dict[str, int]:
    """Return when each pod was asked to stop; a pod that died was not asked."""
    died = {event.pod for event in events if event.kind == "died"}
    gone = {
        pod: timeline.gone_at
        for pod, timeline in timelines.items()
        if timeline.gone_at is not None and pod not in died
    }
    for kind in ("left", "sigterm"):
        gone |= {event.pod: event.at for event in events if event.kind == kind}
    return gone


def _matched(
    changes: Sequence[ReplicaChange], instants: Mapping[str, int]
) -> dict[str, ReplicaChange]:
    room = [abs(change.replicas_after - change.replicas_before) for change in changes]
    found: dict[str, ReplicaChange] = {}
    for pod, at in sorted(instants.items(), key=lambda item: (item[1], item[0])):
        for place in reversed(range(len(changes))):
            if room[place] and earliest_at(changes[place]) <= at:
                room[place] -= 1
                found[pod] = changes[place]
                break
    return found
