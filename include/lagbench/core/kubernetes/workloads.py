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
