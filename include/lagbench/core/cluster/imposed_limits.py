"""Find CPU limits that a cluster gave to a pod of a run although its manifest has none.

Source: the admission plugin LimitRanger of Kubernetes 1.34. A container without a limit gets the
``default`` of a LimitRange's type Container, which is its ``max`` where no default is stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lagbench.core.cluster.manifests import Manifest


def imposed_cpu_limits(workload: Manifest, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the CPU limits of the pod's containers that ``workload`` leaves without one, by name.

    Containers that the cluster has added do not count.
    """
    written = {one["name"]: _cpu_limit(one) for one in _containers(workload["spec"]["template"])}
    found = {str(one["name"]): _cpu_limit(one) for one in _containers(pod)}
    return {
        name: limit
        for name, limit in found.items()
        if limit is not None and name in written and written[name] is None
    }


def sets_cpu_limit(limit_range: Mapping[str, Any]) -> bool:
    """Return whether a LimitRange gives a CPU limit to containers without one."""
    return any(
        item.get("type") == "Container"
        and "cpu" in {**(item.get("max") or {}), **(item.get("default") or {})}
        for item in (limit_range.get("spec") or {}).get("limits") or []
    )


def _containers(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (pod.get("spec") or {}).get("containers") or ()


def _cpu_limit(container: Mapping[str, Any]) -> str | None:
    limit = ((container.get("resources") or {}).get("limits") or {}).get("cpu")
    return None if limit is None else str(limit)
