"""Facts about a workload from its manifest with status."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.kubernetes.workloads import is_rolled_out, wanted_replicas

DONE = {"observedGeneration": 2, "updatedReplicas": 3, "replicas": 3, "availableReplicas": 3}


def deployment(**status: Any) -> dict[str, Any]:
    """Return a Deployment that wants three replicas in its second generation."""
    return {
        "metadata": {"generation": 2},
        "spec": {"replicas": 3},
        "status": {**DONE, **status},
    }


def test_rolled_out_means_all_pods_new_and_available() -> None:
    """Every count equals the wanted one."""
    assert is_rolled_out(deployment()) is True


@pytest.mark.parametrize(
    "status",
    [
        {"updatedReplicas": 2},
        {"replicas": 4},
        {"availableReplicas": None},
        {"observedGeneration": 1},
    ],
)
def test_a_rollout_in_progress_is_not_rolled_out(status: dict[str, Any]) -> None:
    """An old pod, a surge pod, a pod that is not available, or a spec not yet seen."""
    assert is_rolled_out(deployment(**status)) is False


def test_replicas_that_are_not_stated_are_one() -> None:
    """That is the API server's default; zero is stated."""
    assert wanted_replicas({"spec": {}}) == 1
    assert wanted_replicas({"spec": {"replicas": 0}}) == 0
