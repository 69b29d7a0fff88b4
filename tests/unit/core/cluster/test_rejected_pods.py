"""Why Kubernetes creates no pods, from statuses of Kubernetes 1.34 and its warnings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lagbench.core.cluster.rejected_pods import (
    imposed_cpu_limits,
    refused_pods,
    sets_cpu_limit,
    violated_level,
)
from lagbench.project import PROJECT_ROOT

RECORDED = PROJECT_ROOT / "tests/data/refused_pods"

ENFORCE, WARN = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"

FIELDS = "runAsNonRoot != true (pod must set securityContext.runAsNonRoot=true)"

WARNING = f'would violate PodSecurity "restricted:latest": {FIELDS}'


def recorded(name: str) -> dict[str, Any]:
    """Return a Deployment as the API server gave it."""
    found: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return found


def namespace(**labels: str) -> dict[str, Any]:
    """Return a namespace."""
    return {"metadata": {"name": "lagbench", "labels": labels}}


@pytest.mark.parametrize(
    ("name", "named"),
    [("pod_security", "allowPrivilegeEscalation"), ("quota", "limited: pods=1")],
)
def test_a_refusal_has_its_reason_and_its_words(name: str, named: str) -> None:
    """The level of the namespace and a quota both leave a Deployment without pods."""
    refusal = refused_pods(recorded(name))

    assert refusal is not None
    assert refusal.startswith("FailedCreate: ")
    assert named in refusal


def test_a_replica_set_that_cannot_be_created_is_a_refusal() -> None:
    """A quota on ReplicaSets leaves no ReplicaSet whose condition could say so."""
    condition = {
        "type": "Progressing",
        "status": "False",
        "reason": "ReplicaSetCreateError",
        "message": "full",
    }

    assert refused_pods({"status": {"conditions": [condition]}}) == "ReplicaSetCreateError: full"


@pytest.mark.parametrize(
    "changes", [{"status": "False"}, {"reason": "FailedDelete"}, {"type": "Available"}]
)
def test_another_condition_is_no_refusal(changes: dict[str, str]) -> None:
    """Pods that cannot be deleted, or a failure that is over, keep no pod from its start."""
    deployment = recorded("pod_security")
    for condition in deployment["status"]["conditions"]:
        if condition["type"] == "ReplicaFailure":
            condition.update(changes)

    assert refused_pods(deployment) is None
    assert refused_pods({}) is None


@pytest.mark.parametrize(
    ("labels", "is_violated"),
    [
        pytest.param({ENFORCE: "restricted", WARN: "restricted"}, True, id="enforced"),
        pytest.param({ENFORCE: "baseline", WARN: "restricted"}, False, id="warned-of-only"),
        pytest.param({WARN: "restricted"}, False, id="nothing-enforced"),
        pytest.param(
            {ENFORCE: "restricted", f"{ENFORCE}-version": "v1.20"}, False, id="another-version"
        ),
    ],
)
def test_a_warning_counts_if_the_namespace_enforces_its_level(
    labels: dict[str, str], *, is_violated: bool
) -> None:
    """A namespace may warn of a stricter level than it enforces: its pods start."""
    found = violated_level(["deprecated", WARNING], namespace(**labels))

    assert found == (("restricted:latest", FIELDS) if is_violated else None)


def pod_of(**cpu_limits: str | None) -> dict[str, Any]:
    """Return a pod with a container for each name, with that limit."""
    containers = [
        {"name": name, "resources": {"limits": {"memory": "1Gi"} | ({"cpu": cpu} if cpu else {})}}
        for name, cpu in cpu_limits.items()
    ]
    return {"spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("written", "found", "imposed"),
    [
        ({"consumer": None}, {"consumer": "500m"}, {"consumer": "500m"}),
        ({"consumer": None}, {"consumer": None}, {}),
        ({"consumer": "2"}, {"consumer": "2"}, {}),
        ({"consumer": None}, {"consumer": None, "sidecar": "100m"}, {}),
    ],
)
def test_a_limit_is_imposed_if_the_manifest_has_none(
    written: dict[str, str | None], found: dict[str, str | None], imposed: dict[str, str]
) -> None:
    """A limit that the manifest states is its own, and an added container is not the run's."""
    workload = {"spec": {"template": pod_of(**written)}}

    assert imposed_cpu_limits(workload, pod_of(**found)) == imposed


@pytest.mark.parametrize(
    ("item", "is_set"),
    [
        ({"type": "Container", "default": {"cpu": "500m"}}, True),
        ({"type": "Container", "max": {"cpu": "2"}}, True),
        ({"type": "Container", "default": {"memory": "1Gi"}}, False),
        ({"type": "Container", "defaultRequest": {"cpu": "100m"}}, False),
        ({"type": "Pod", "max": {"cpu": "2"}}, False),
    ],
)
def test_a_limit_range_limits_containers_by_default_or_max(
    item: dict[str, Any], *, is_set: bool
) -> None:
    """A default request and the bounds of a whole pod limit no container."""
    assert sets_cpu_limit({"spec": {"limits": [item]}}) is is_set
