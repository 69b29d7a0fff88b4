"""Read why Kubernetes creates no pods of a workload, from its status or from a trial.

Source of the names: the Deployment and ReplicaSet controllers of Kubernetes 1.34
(``pkg/controller/deployment``) and its admission plugin PodSecurity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
