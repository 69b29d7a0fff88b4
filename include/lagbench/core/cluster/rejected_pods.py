"""Read why Kubernetes creates no pods of a workload, from its status or from a trial.

Source of the names: the Deployment and ReplicaSet controllers of Kubernetes 1.34
(``pkg/controller/deployment``) and its admission plugin PodSecurity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagbench.core.cluster.manifests import Manifest

_REFUSALS = frozenset(
    {
        # type, status, reason; a ReplicaFailure with the reason FailedDelete refuses nothing
        ("ReplicaFailure", "True", "FailedCreate"),
        ("Progressing", "False", "ReplicaSetCreateError"),
    }
)

_ENFORCED = "pod-security.kubernetes.io/enforce"
_VIOLATION = re.compile(
    r'would violate PodSecurity "(?P<level>[^":]+:[^"]+)": (?P<fields>.+)', re.DOTALL
)


def refused_pods(workload: Mapping[str, Any]) -> str | None:
    """Return the reason and Kubernetes' words if it rejects pods of a Deployment; None: none."""
    for found in (workload.get("status") or {}).get("conditions") or []:
        if (found.get("type"), found.get("status"), found.get("reason")) in _REFUSALS:
            return f"{found['reason']}: {found.get('message') or 'without a message'}"
    return None


def violated_level(warnings: Sequence[str], namespace: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the level that a namespace enforces and a workload's pods violate, and their fields.

    :param warnings: of the answer to the workload.
    """
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    enforced = f"{labels.get(_ENFORCED)}:{labels.get(f'{_ENFORCED}-version', 'latest')}"
    for warning in warnings:
        found = _VIOLATION.search(warning)
        if found is not None and found["level"] == enforced:
            return enforced, found["fields"]
    return None


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
