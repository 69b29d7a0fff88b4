"""The environment of a scale target's containers, which ``...FromEnv`` parameters read."""

from __future__ import annotations

from lagbench.adapters.kube.cluster_protocol import (
    CONFIG_MAP,
    SECRET,
    Cluster,
    ClusterError,
    Manifest,
)
from lagbench.core.keda.triggers import TargetEnvironment, container_variables, decode_secret


class ContainerMissing(Exception):
    """The container that a ScaledObject names is not in its target."""


def read_target_environment(manifest: Manifest, cluster: Cluster) -> TargetEnvironment:
    """Return the variables of every container; "" is the one that the ScaledObject means."""
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    kind = (target.get("apiVersion") or "apps/v1", target.get("kind") or "Deployment")
    namespace = manifest["metadata"]["namespace"]
    workload = cluster.get(kind, (namespace, str(target.get("name"))))
    containers = workload["spec"]["template"]["spec"]["containers"]
    kinds = {"ConfigMap": CONFIG_MAP, "Secret": SECRET}
    found = {
        str(item["name"]): container_variables(
            item, lambda kind, name: read_values(kinds[kind], (namespace, name), cluster)
        )
        for item in containers
    }
    wanted = str(target.get("envSourceContainerName") or containers[0]["name"])
    if wanted not in found:
        raise ContainerMissing(f"couldn't find container with name {wanted} on Target object")
    return TargetEnvironment({**found, "": found[wanted]})


def read_values(kind: tuple[str, str], key: tuple[str, str], cluster: Cluster) -> dict[str, str]:
    """Return the decoded values of a Secret or ConfigMap; one that is not there has none."""
    try:
        found = cluster.get(kind, key)
    except ClusterError as error:
        if error.is_not_found:
            return {}
        raise
    if kind == SECRET:
        return decode_secret(found, where=f"Secret {'/'.join(key)}")
    return dict(found.get("data") or {})
