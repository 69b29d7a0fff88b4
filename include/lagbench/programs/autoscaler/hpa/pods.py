"""Count a workload's pods."""

from __future__ import annotations

from lagbench.adapters.kube.cluster_protocol import POD, Cluster
from lagbench.core.hpa import parse_pod


def count_ready_pods(cluster: Cluster, namespace: str, selector: str) -> int:
    """Return how many pods of a selector are Running and Ready."""
    pods = [parse_pod(pod, "cpu") for pod in cluster.list(POD, namespace, selector)]
    return sum(pod.phase == "Running" and pod.is_ready is True for pod in pods)
