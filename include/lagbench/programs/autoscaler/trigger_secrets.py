"""Secrets and environment variables of a ScaledObject's triggers, as they are now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal

from lagbench.adapters.kube.followed_cluster import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    CONFIG_MAP,
    SECRET,
    TRIGGER_AUTHENTICATION,
    Cluster,
    ClusterError,
    Manifest,
    ObjectKey,
    key_of,
)
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.keda.triggers.trigger_authentication import (
    AuthenticationRef,
    decode_secret,
    resolve_authentication,
    target_variables,
)
from lagbench.errors import WrongInput

log = logging.getLogger(__name__)

Environments = Mapping[str, Mapping[str, str]]

# The secrets of a ClusterTriggerAuthentication lie where KEDA itself runs.
_KEDA_NAMESPACE = "keda"


def parse_resolved(manifest: Manifest, cluster: Cluster) -> ScaledObjectSpec:
    """Return the spec of a ScaledObject with its secrets and ``...FromEnv`` values.

    :raises WrongInput: it cannot be scaled as it is written.
    """
    key = key_of(manifest)
    environment = cache(lambda: _target_environment(manifest, cluster))
    where = f"ScaledObject {'/'.join(key)}"
    written = parse_scaled_object(manifest, where=where)
    asks_environment = any(
        name.endswith("FromEnv")
        for trigger in manifest["spec"]["triggers"]
        for name in trigger["metadata"]
    )
    auth: dict[int, dict[str, str]] = {}
    for trigger in written.triggers:
        ref = trigger.authentication_ref
        if ref is None:
            continue
        try:
            auth[trigger.index] = _read_authentication(ref, key[0], cluster, environment)
        except ClusterError as error:
            if not error.is_not_found:
                raise
            log.warning("%s %s/%s does not exist", ref.kind, key[0], ref.name)
    return parse_scaled_object(
        manifest,
        where=where,
        environment=environment()[""] if asks_environment else None,
        auth=auth,
    )


def _read_authentication(
    ref: AuthenticationRef,
    namespace: str,
    cluster: Cluster,
    environment: Callable[[], Environments],
) -> dict[str, str]:
    kind, place = TRIGGER_AUTHENTICATION, namespace
    if ref.kind == CLUSTER_TRIGGER_AUTHENTICATION[1]:
        kind, place, namespace = CLUSTER_TRIGGER_AUTHENTICATION, "", _KEDA_NAMESPACE
    authentication = cluster.get(kind, (place, ref.name))
    return resolve_authentication(
        authentication,
        where=f"{ref.kind} {ref.name}",
        values_of=cache(lambda kind, name: _values(kind, (namespace, name), cluster)),
        environment=environment,
    )


def _target_environment(manifest: Manifest, cluster: Cluster) -> Environments:
    """Return the variables of every container; "" is the one that the ScaledObject means."""
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    kind = (target.get("apiVersion") or "apps/v1", target.get("kind") or "Deployment")
    namespace = key_of(manifest)[0]
    workload = cluster.get(kind, (namespace, str(target.get("name"))))
    wanted = target.get("envSourceContainerName")
    found = target_variables(
        workload, wanted, lambda kind, name: _values(kind, (namespace, name), cluster)
    )
    if "" not in found:
        raise WrongInput(
            where=f"ScaledObject {'/'.join(key_of(manifest))}",
            field="spec.scaleTargetRef.envSourceContainerName",
            value=wanted,
            allowed=f"a container of the target: {', '.join(sorted(found))}",
        )
    return found


def _values(
    kind: Literal["ConfigMap", "Secret"], key: ObjectKey, cluster: Cluster
) -> dict[str, str]:
    """Return the decoded values of a Secret or ConfigMap; one that is not there has none."""
    try:
        found = cluster.get(SECRET if kind == "Secret" else CONFIG_MAP, key)
    except ClusterError as error:
        if error.is_not_found:
            return {}
        raise
    if kind == "Secret":
        return decode_secret(found, where=f"Secret {'/'.join(key)}")
    return dict(found.get("data") or {})
