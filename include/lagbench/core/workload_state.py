"""Facts about a Deployment or StatefulSet from its status: replicas, and why pods are refused.

Names of conditions: the Deployment and ReplicaSet controllers of Kubernetes 1.34
(``pkg/controller/deployment``) and its admission plugin PodSecurity.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

JobEnd = Literal["complete", "failed", "gone"]


def selector_string(selector: Mapping[str, Any]) -> str:
    """Return a spec's LabelSelector in the string form of requests and Scale objects."""
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for rule in selector.get("matchExpressions") or ():
        values = ",".join(rule.get("values") or ())
        terms.append(
            {
                "In": f"{rule['key']} in ({values})",
                "NotIn": f"{rule['key']} notin ({values})",
                "Exists": rule["key"],
                "DoesNotExist": f"!{rule['key']}",
            }[rule["operator"]]
        )
    return ",".join(terms)


def wanted_replicas(workload: Mapping[str, Any]) -> int:
    """Return ``spec.replicas``; the API server's default is 1."""
    wanted = (workload.get("spec") or {}).get("replicas")
    return 1 if wanted is None else int(wanted)


def is_rolled_out(workload: Mapping[str, Any]) -> bool:
    """Return whether all wanted replicas are of the newest template, and available.

    A status that the controller has not updated for the newest spec says nothing.
    """
    metadata, status = workload.get("metadata") or {}, workload.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        return False
    wanted = wanted_replicas(workload)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    return all(int(status.get(count) or 0) == wanted for count in counts)


_MOST_ENDS = 3
"""The kubelet starts a container at once after its first end, and 10 s after its second."""


def is_ready(found: Mapping[str, Any]) -> bool:
    """Return whether the object is Ready; one without a status, or an unknown one, is not."""
    return _held(found, "Ready") is not None


def ready_since(found: Mapping[str, Any]) -> str | None:
    """Return since when the object is Ready, as the API server wrote it; None: it is not Ready."""
    ready = _held(found, "Ready")
    return None if ready is None else str(ready.get("lastTransitionTime") or "") or None


def job_end(job: Mapping[str, Any] | None) -> JobEnd | None:
    """Return how a Job has ended, also one that is not there; None: it runs."""
    if job is None:
        return "gone"
    if _held(job, "Complete") is not None:
        return "complete"
    return None if _held(job, "Failed") is None else "failed"


def _held(found: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """Return the condition of a kind if it is True."""
    conditions = (found.get("status") or {}).get("conditions") or ()
    held = (c for c in conditions if c.get("type") == kind and c.get("status") == "True")
    return next(held, None)


def repeated_ends(pod: Mapping[str, Any]) -> str | None:
    """Return how the pod's container has ended three times or more; None: it runs, or may yet."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        ends = int(container.get("restartCount") or 0)
        if ends < _MOST_ENDS or container.get("ready"):
            continue
        states = (container.get("state") or {}, container.get("lastState") or {})
        ended: Mapping[str, Any] = next(
            (state["terminated"] for state in states if state.get("terminated")), {}
        )
        why = f"{ended.get('exitCode', 'unknown')} ({ended.get('reason', 'no reason given')})"
        return f"container {container['name']} ended {ends} times, last with exit code {why}"
    return None


PROBE_KINDS = ("readinessProbe", "livenessProbe", "startupProbe")
"""The fields of a container that hold one."""


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
    """Return the level that a namespace enforces and the warned-of pods violate, and the fields."""
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    enforced = f"{labels.get(_ENFORCED)}:{labels.get(f'{_ENFORCED}-version', 'latest')}"
    for warning in warnings:
        found = _VIOLATION.search(warning)
        if found is not None and found["level"] == enforced:
            return enforced, found["fields"]
    return None


def imposed_cpu_limits(workload: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the CPU limits, by name, of the workload's containers that were given none in it."""
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
