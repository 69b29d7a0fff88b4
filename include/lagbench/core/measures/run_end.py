"""Determine the end state of a measurement: drained, at the floor, group stable.

Drained is decided at the fence (end and committed offsets taken after producer and consumers had
stopped): committed == end for every partition. A partition without a commit is drained only if
nothing was ever written to it. Stable is the group's last known state before the final stop. A
sample of the group or of the replicas that is older than GAP_SECONDS by then is ignored. A policy
that scales to zero is also at its floor with one replica, because any load keeps one replica.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_recorder import GroupSample, ReplicaSample, UsageSample


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


class ComponentCost(MeasureModel):
    """CPU and memory of one part of the bench over the run."""

    component: str
    cpu_seconds: float
    cpu_share: float  # of one core over the observed time
    max_memory_bytes: int


class ObserverCost(MeasureModel):
    """The bench's own use of the machine."""

    observed_seconds: float | None
    components: tuple[ComponentCost, ...]
    total_cpu_seconds: float | None


def observer_cost(records: Sequence[TelemetryRecord], from_at: int, until_at: int) -> ObserverCost:
    """Return the cost per part, highest first."""
    samples = sorted(
        (r for r in records if isinstance(r, UsageSample) and from_at <= r.at <= until_at),
        key=lambda sample: sample.at,
    )
    observed = (samples[-1].at - samples[0].at) / NANOSECONDS if samples else 0.0
    if observed == 0:  # one reading of a running total is not enough
        return ObserverCost(observed_seconds=None, components=(), total_cpu_seconds=None)
    by_part: dict[str, list[UsageSample]] = {}
    for sample in samples:
        by_part.setdefault(sample.component, []).append(sample)
    parts = []
    for component, own in by_part.items():
        grown = [(b.cpu_seconds - a.cpu_seconds, b.cpu_seconds) for a, b in pairwise(own)]
        cpu = sum(more if more >= 0 else whole for more, whole in grown)  # else it was restarted
        parts.append(
            ComponentCost(
                component=component,
                cpu_seconds=cpu,
                cpu_share=cpu / observed,
                max_memory_bytes=max(sample.memory_bytes for sample in own),
            )
        )
    parts.sort(key=lambda part: (-part.cpu_seconds, part.component))
    return ObserverCost(
        observed_seconds=observed,
        components=tuple(parts),
        total_cpu_seconds=sum(part.cpu_seconds for part in parts),
    )
