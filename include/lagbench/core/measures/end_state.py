"""Determine the end state of a measurement: drained, at the floor, group stable.

Drained is decided at the fence (end and committed offsets taken after producer and consumers had
stopped): committed == end for every partition. A partition without a commit is drained only if
nothing was ever written to it. Stable is the group's last known state before the final stop. A
sample of the group or of the replicas that is older than GAP_SECONDS by then is ignored. A policy
that scales to zero is also at its floor with one replica, because any load keeps one replica.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lagbench.core.measures.evidence.gaps import GAP_SECONDS
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.recorder import GroupSample, ReplicaSample
from lagbench.core.telemetry.records import TelemetryRecord


class EndState(MeasureModel):
    """The state in which the measurement ended."""

    is_drained: bool | None  # committed == end for every partition, at the fence
    undrained_partitions: tuple[int, ...]
    undrained_records: int | None
    replicas: int | None
    floor_replicas: int | None
    is_at_floor: bool | None
    group_state: str | None
    is_group_stable: bool | None
    log_records: int | None = None  # sum of the end offsets of all partitions at the fence


def end_state(
    records: Sequence[TelemetryRecord],
    *,
    ends: Mapping[int, int] | None,
    committed: Mapping[int, int | None] | None,
    floor: int | None,
    until_at: int,
    has_members: bool = True,
) -> EndState:
    """Return the end state; ``ends`` and ``committed`` are the fence's, None without a fence.

    Without ``has_members`` the group must be empty: its offsets are published, not committed.
    """
    undrained: list[int] = []
    left = 0
    if ends is not None and committed is not None:
        for partition, end in sorted(ends.items()):
            behind = end - (committed.get(partition) or 0)
            if behind > 0:
                undrained.append(partition)
                left += behind
    is_fenced = ends is not None and committed is not None
    since_at = until_at - round(GAP_SECONDS * NANOSECONDS)
    recent = [record for record in records if since_at <= record.at <= until_at]
    replicas = [record for record in recent if isinstance(record, ReplicaSample)]
    groups = [record for record in recent if isinstance(record, GroupSample)]
    spec = max(replicas, key=lambda sample: sample.at).spec if replicas else None
    state = max(groups, key=lambda sample: sample.at).state if groups else None
    return EndState(
        is_drained=not undrained if is_fenced else None,
        undrained_partitions=tuple(undrained),
        undrained_records=left if is_fenced else None,
        replicas=spec,
        floor_replicas=floor,
        is_at_floor=None if spec is None or floor is None else spec in (floor, max(floor, 1)),
        group_state=state,
        is_group_stable=None if state is None else _is_stable(state, spec, has_members),
        log_records=None if ends is None else sum(ends.values()),
    )


def _is_stable(state: str, replicas: int | None, has_members: bool) -> bool | None:
    """Return whether the group is settled; at zero replicas an empty group is."""
    name = state.rpartition(".")[2].replace("_", "").lower()
    if not has_members:
        return name == "empty"
    if name == "empty":
        return None if replicas is None else replicas == 0
    return name == "stable"
