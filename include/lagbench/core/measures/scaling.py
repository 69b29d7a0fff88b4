"""Replicas over the run and what they were used for."""

from __future__ import annotations

from lagbench.core.measures.model import MeasureModel
from lagbench.core.measures.pods import SurplusPod
from lagbench.core.measures.replicas import ReplicaChange


class Scaling(MeasureModel):
    """Replicas over the run and what they were used for."""

    changes: tuple[ReplicaChange, ...]
    change_count: int
    reversals: int
    flips: int
    floor_replicas: int | None
    ceiling_replicas: int | None
    max_replicas: int | None  # wanted
    max_ready_replicas: int | None
    partitions: int
    pod_minutes: float | None  # over the scenario's own stretch, as is the next
    idle_ratio: float | None
    zero_partition_pod_seconds: float | None
    baseline_at_floor: bool | None
    baseline_text: str
    max_members: int | None
    surplus_pods: tuple[SurplusPod, ...]
    surplus_pods_idle: bool | None  # None: there were never more members than partitions
    surplus_text: str
    unseen_text: str = ""  # where replicas may have changed unseen; empty: nowhere
    pod_minutes_after: float | None = None  # from the stretch's end to the end of the measurement
    has_baseline: bool = True  # False: the load begins with a spike
    max_group_members: int | None = None  # as the broker counted them
