"""The scale subresource: replicas of a workload as an ``autoscaling/v1`` Scale object."""

from __future__ import annotations

from lagbench.core.kubernetes import selector_string
from lagbench.localkube.api_error import invalid
from lagbench.localkube.objects import JsonObject, copy_of, name_of, namespace_of


def scale_of(workload: JsonObject) -> JsonObject:
    """Return the Scale object of a workload."""
    metadata = workload["metadata"]
    replicas = workload["spec"].get("replicas", 1)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": name_of(workload),
            "namespace": namespace_of(workload),
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": {"replicas": replicas} if replicas else {},  # the API server leaves 0 out
        "status": {
            "replicas": workload.get("status", {}).get("replicas", 0),
            "selector": selector_string(workload["spec"].get("selector") or {}),
        },
    }


def with_scale(workload: JsonObject, scale: JsonObject) -> JsonObject:
    """Return a copy of ``workload`` with the replicas that a written Scale object requests."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        message = f"Invalid value: {replicas!r}: must be an integer greater than or equal to 0"
        raise invalid("Scale", name_of(workload), [("spec.replicas", message)])
    after = copy_of(workload)
    after["spec"]["replicas"] = replicas
    given = (scale.get("metadata") or {}).get("resourceVersion")
    if given:
        after["metadata"]["resourceVersion"] = given
    return after
