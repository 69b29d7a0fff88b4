"""Replicas over time: steps, flips, coverage."""

from lagbench.core.measures.replicas.coverage import replica_gaps
from lagbench.core.measures.replicas.flapping import baseline_at_floor, mark_flips, replica_changes
from lagbench.core.measures.replicas.pods import ReplicaPods, replica_pods
from lagbench.core.measures.replicas.self_made import mark_self_made
from lagbench.core.measures.replicas.steps import ReplicaChange

__all__ = [
    "ReplicaChange",
    "ReplicaPods",
    "baseline_at_floor",
    "mark_flips",
    "mark_self_made",
    "replica_changes",
    "replica_gaps",
    "replica_pods",
]
