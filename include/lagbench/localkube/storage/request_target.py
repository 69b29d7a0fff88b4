"""Parse the path of a request into kind, namespace, object and subresource."""

from __future__ import annotations

from dataclasses import dataclass

from lagbench.localkube.api_error import no_such_path
from lagbench.localkube.storage.resources import NAMESPACE, Resource, resource_at


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request; parts that the path does not name are empty strings."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target:
    """Return the target of a path such as ``/apis/apps/v1/namespaces/x/deployments/y/scale``."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path(path)
    namespace = ""
    is_namespace_itself = group == "" and (len(rest) < 3 or rest[2] in ("status", "finalize"))
    if rest[0] == "namespaces" and not is_namespace_itself:
        namespace, rest = rest[1], rest[2:]
    resource = resource_at(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path(path)
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if name and resource.namespaced and not namespace:
        raise no_such_path(path)
    served = {
        "status": resource.has_status,
        "scale": resource.has_scale,
        "log": resource.has_log,
        "signal": resource.has_signal,
        "finalize": resource == NAMESPACE,
    }
    if subresource and not served.get(subresource, False):
        raise no_such_path(path)
    return Target(resource, namespace, name, subresource)
