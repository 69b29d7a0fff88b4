"""Check that a workload's containers request the resource that a cpu or memory trigger measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.kubernetes import parse_milli
from lagbench.core.policy.admission.cluster import ClusterView, Manifest


def request_problems(
    workload: Manifest, resource: str, container_name: str, cluster: ClusterView
) -> Iterator[str]:
    """Yield KEDA's refusal for each container without a request or limit for the resource.

    Requests of the pod as a whole count unless one container is named; defaults of a LimitRange
    count for every container.
    """
    pod = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    if not container_name and is_requested(pod.get("resources"), resource):
        return
    for container in pod.get("containers") or []:
        name = container.get("name", "")
        if container_name and name != container_name:
            continue
        if is_requested(container.get("resources"), resource):
            continue
        if not _has_default(cluster, resource):
            yield (
                f"the scaledobject has a {resource} trigger but the container {name} doesn't have "
                f"the {resource} request defined"
            )


def is_requested(resources: Mapping[str, Any] | None, resource: str) -> bool:
    """Return whether a request or limit above zero is given; a limit alone becomes the request."""
    given = resources or {}
    return any(_is_positive((given.get(key) or {}).get(resource)) for key in ("requests", "limits"))


def _has_default(cluster: ClusterView, resource: str) -> bool:
    return any(
        item.get("type") == "Container"
        and any(
            _is_positive((item.get(key) or {}).get(resource))
            for key in ("default", "defaultRequest")
        )
        for limit_range in cluster.limit_ranges
        for item in (limit_range.get("spec") or {}).get("limits") or []
    )


def _is_positive(quantity: Any) -> bool:
    return quantity is not None and parse_milli(quantity, where="resources", field="quantity") > 0
