"""The environment of a scale target's containers, which ``...FromEnv`` parameters read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.adapters.kube.cluster_protocol import (
    CONFIG_MAP,
    SECRET,
    Cluster,
    ClusterError,
    Manifest,
)
from lagbench.core.keda.triggers import TargetEnvironment, decode_secret


class ContainerMissing(Exception):
    """The container that a ScaledObject names is not in its target."""


def read_target_environment(manifest: Manifest, cluster: Cluster) -> TargetEnvironment:
    """Return the variables of every container; "" is the one that the ScaledObject means."""
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    kind = (target.get("apiVersion") or "apps/v1", target.get("kind") or "Deployment")
    namespace = manifest["metadata"]["namespace"]
    workload = cluster.get(kind, (namespace, str(target.get("name"))))
    containers = workload["spec"]["template"]["spec"]["containers"]
    found = {str(item["name"]): _variables(item, namespace, cluster) for item in containers}
    wanted = str(target.get("envSourceContainerName") or containers[0]["name"])
    if wanted not in found:
        raise ContainerMissing(f"couldn't find container with name {wanted} on Target object")
    return TargetEnvironment({**found, "": found[wanted]})


def _variables(container: Mapping[str, Any], namespace: str, cluster: Cluster) -> dict[str, str]:
    variables: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix") or ""
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            name = (source.get(field) or {}).get("name")
            if name:
                values = read_values(kind, (namespace, name), cluster)
                variables |= {f"{prefix}{key}": value for key, value in values.items()}
    for item in container.get("env") or []:
        given = item.get("valueFrom") or {}
        variables[item["name"]] = str(item.get("value") or "")
        for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
            ref = given.get(field)
            if ref:
                values = read_values(kind, (namespace, ref["name"]), cluster)
                variables[item["name"]] = values.get(ref["key"], "")
    return variables


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
