"""Facts about a Deployment or StatefulSet, from its manifest with status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


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
    return _ready(found) is not None


def ready_since(found: Mapping[str, Any]) -> str | None:
    """Return since when the object is Ready, as the API server wrote it; None: it is not Ready."""
    ready = _ready(found)
    return None if ready is None else str(ready.get("lastTransitionTime") or "") or None


def _ready(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    conditions = (found.get("status") or {}).get("conditions") or ()
    held = (c for c in conditions if c.get("type") == "Ready" and c.get("status") == "True")
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
