"""Resolve the TriggerAuthentications of a ScaledObject to the secret values of its triggers."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lagbench.adapters.kube.cluster_protocol import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    CONFIG_MAP,
    SECRET,
    TRIGGER_AUTHENTICATION,
    Cluster,
    ClusterError,
    Manifest,
)
from lagbench.core.keda.triggers import (
    AuthenticationRef,
    TargetEnvironment,
    authentication_refs,
    referenced_objects,
    resolve_authentication,
)
from lagbench.programs.autoscaler.keda.target_environment import read_values

log = logging.getLogger(__name__)

# The secrets of a ClusterTriggerAuthentication lie where KEDA itself runs.
_KEDA_NAMESPACE = "keda"


def read_authentications(
    manifest: Manifest, cluster: Cluster, environment: Callable[[], TargetEnvironment]
) -> dict[int, dict[str, str]]:
    """Return the values by trigger index; a missing object leaves its trigger without any."""
    namespace = manifest["metadata"]["namespace"]
    found: dict[int, dict[str, str]] = {}
    for index, ref in authentication_refs(manifest):
        try:
            found[index] = _read_one(ref, namespace, cluster, environment)
        except ClusterError as error:
            if not error.is_not_found:
                raise
            log.warning("%s %s/%s does not exist", ref.kind, namespace, ref.name)
    return found


def _read_one(
    ref: AuthenticationRef,
    namespace: str,
    cluster: Cluster,
    environment: Callable[[], TargetEnvironment],
) -> dict[str, str]:
    if ref.kind == "ClusterTriggerAuthentication":
        authentication = cluster.get(CLUSTER_TRIGGER_AUTHENTICATION, ("", ref.name))
        namespace = _KEDA_NAMESPACE
    else:
        authentication = cluster.get(TRIGGER_AUTHENTICATION, (namespace, ref.name))
    secrets, config_maps = referenced_objects(authentication)
    needs_environment = bool((authentication.get("spec") or {}).get("env"))
    return resolve_authentication(
        authentication,
        where=f"{ref.kind} {ref.name}",
        secrets={name: read_values(SECRET, (namespace, name), cluster) for name in secrets},
        config_maps={
            name: read_values(CONFIG_MAP, (namespace, name), cluster) for name in config_maps
        },
        environment=environment() if needs_environment else None,
    )
