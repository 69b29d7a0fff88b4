"""The webhook's view of the stored workloads."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.localkube.api_error import ApiError
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import (
    DEPLOYMENT,
    NAMESPACE,
    SCALED_OBJECT,
    STATEFUL_SET,
    Resource,
)
from lagbench.localkube.storage.store import Store

PLACE = "bench"


@pytest.fixture
def registry() -> Registry:
    """Provide an empty cluster with one namespace."""
    made = Registry(Store())
    made.create(NAMESPACE, {"metadata": {"name": PLACE}}, "")
    return made


def create(registry: Registry, kind: Resource, **resources: Any) -> None:
    """Create a workload ``web`` whose container has these resources."""
    labels = {"app": "web"}
    container = {"name": "main", "command": ["x"], "resources": resources}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    registry.create(kind, {"metadata": {"name": "web"}, "spec": spec}, PLACE)


def scale_by_cpu(registry: Registry, kind: str) -> None:
    """Create a ScaledObject with a cpu trigger on the workload ``web``."""
    trigger = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    target = {"kind": kind, "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicaCount": 1, "triggers": [trigger]}
    registry.create(SCALED_OBJECT, {"metadata": {"name": "x"}, "spec": spec}, PLACE)


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET])
def test_the_requests_of_the_target_decide(registry: Registry, kind: Resource) -> None:
    """A cpu trigger needs requests, and is refused while its workload has none or is missing."""
    with pytest.raises(ApiError, match=f'{kind.kind} "web"'):
        scale_by_cpu(registry, kind.kind)
    create(registry, kind)
    with pytest.raises(ApiError, match="cpu request"):
        scale_by_cpu(registry, kind.kind)


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET])
def test_a_target_with_requests_is_admitted(registry: Registry, kind: Resource) -> None:
    """The workload that the target names is read, of whichever of the two kinds it is."""
    create(registry, kind, requests={"cpu": "100m"})

    scale_by_cpu(registry, kind.kind)
