"""CPU limits that a cluster adds to the pods of a run."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.cluster.imposed_limits import imposed_cpu_limits, sets_cpu_limit


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
