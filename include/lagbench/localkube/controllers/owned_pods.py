"""Read the pods that a workload controls, and identify its pod template."""

from __future__ import annotations

import hashlib
import json

from lagbench.core.kubernetes import is_ready
from lagbench.localkube.objects import (
    JsonObject,
    condition,
    controller_uid,
    from_rfc3339,
    namespace_of,
    uid_of,
)
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import POD


def owned_pods(registry: Registry, workload: JsonObject) -> list[JsonObject]:
    """Return all pods that ``workload`` controls, terminating ones too."""
    pods = registry.store.select(POD, namespace_of(workload))
    return [pod for pod in pods if controller_uid(pod) == uid_of(workload)]


def has_ended(pod: JsonObject) -> bool:
    """Return whether none of the pod's containers will run again."""
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def seconds_until_available(workload: JsonObject, pod: JsonObject, now_ns: int) -> float | None:
    """Return how long a pod must stay ready to be available; 0 if it is, None if it is not ready.

    :param now_ns: wall clock in nanoseconds.
    """
    if not is_ready(pod):
        return None
    needed = float(workload["spec"].get("minReadySeconds") or 0)
    if not needed:
        return 0.0
    since = from_rfc3339((condition(pod, "Ready") or {})["lastTransitionTime"])
    return max(0.0, since + needed - now_ns / 1e9)


def hash_of(template: JsonObject) -> str:
    """Return ten characters that change with the pod template."""
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).digest()
    alphabet = "bcdfghjklmnpqrstvwxz2456789"
    return "".join(alphabet[byte % len(alphabet)] for byte in digest[:10])
