"""KEDA 2.21's admission webhook for ScaledObjects: the rules that look at the cluster.

The webhook runs its checks in random order and answers with the first that fails; here all that
fail are returned. The later checks of the *operator* (a trigger's parameters) are not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.keda.object.rules import hpa_name, object_refusals, uses_modifiers
from lagbench.core.keda.triggers.other_types import RESOURCE_TYPES
from lagbench.core.kubernetes.object_schema import Refusal
from lagbench.core.kubernetes.quantity import parse_milli
from lagbench.core.policy.admission.cluster import ClusterView, Manifest, target_type, type_text

_TRANSFER = "scaledobject.keda.sh/transfer-hpa-ownership"
_NOT_OWNED = "validations.keda.sh/hpa-ownership"
_TARGET, _HPA_NAME = "spec.scaleTargetRef", "spec.advanced.horizontalPodAutoscalerConfig.name"
POLLING_WARNING = (
    "PollingInterval is configured but is not relevant for scaling. It only affects scaling when "
    "minReplicaCount = 0, idleReplicaCount is set, or useCachedMetrics is enabled, but it still "
    "controls how often KEDA refreshes the ScaledObject status conditions and events"
)
COOLDOWN_WARNING = (
    "CooldownPeriod is configured but is not relevant. CooldownPeriod is only relevant when "
    "minReplicaCount = 0 or idleReplicaCount is set"
)


def webhook_refusals(
    manifest: Manifest, cluster: ClusterView, *, is_dry_run: bool = False
) -> list[Refusal]:
    """Return every reason to reject."""
    spec = manifest["spec"]
    unknown = _unknown_kind(spec["scaleTargetRef"], cluster)
    if unknown is not None:
        return [unknown]
    return [
        *_other_scaled_objects(manifest, cluster),
        *object_refusals(manifest),
        *([] if is_dry_run else _resource_triggers(spec, cluster)),
        *_hpas(manifest, cluster),
        *_fallback(spec),
    ]


def webhook_warnings(manifest: Manifest) -> list[str]:
    """Return what the webhook warns of when it accepts."""
    spec = manifest["spec"]
    warnings = []
    if spec.get("pollingInterval") is not None and not polling_interval_decides(spec):
        warnings.append(POLLING_WARNING)
    is_idle_unset = spec.get("idleReplicaCount") is None
    if spec.get("cooldownPeriod") is not None and is_idle_unset and spec.get("minReplicaCount"):
        warnings.append(COOLDOWN_WARNING)
    return warnings


def polling_interval_decides(spec: Mapping[str, Any]) -> bool:
    """Return whether KEDA's own loop has anything to decide, not the HPA alone."""
    return (
        not spec.get("minReplicaCount")
        or spec.get("idleReplicaCount") is not None
        or any(trigger.get("useCachedMetrics") for trigger in spec["triggers"])
        or uses_modifiers(spec)
    )


def _unknown_kind(target: Mapping[str, Any], cluster: ClusterView) -> Refusal | None:
    version, kind = target_type(target)
    if version.count("/") > 1:
        text = f"{version} is no GROUP/VERSION"
        return Refusal("target-kind", f"{_TARGET}.apiVersion", text, "GROUP/VERSION")
    if kind in {"Deployment", "StatefulSet"} or cluster.has_kind(version, kind):
        return None
    text = f'no matches for kind "{kind}" in version "{version}"'
    return Refusal("target-kind", f"{_TARGET}.kind", text, "a kind of this cluster")


def _name(manifest: Manifest) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _other_scaled_objects(manifest: Manifest, cluster: ClusterView) -> Iterator[Refusal]:
    target = manifest["spec"]["scaleTargetRef"]
    for other in (item for item in cluster.scaled_objects if _name(item) != _name(manifest)):
        theirs = other["spec"].get("scaleTargetRef") or {}
        managed = f"is already managed by the ScaledObject '{_name(other)}'"
        same_name = theirs.get("name") == target["name"]
        if same_name and type_text(theirs) == type_text(target):
            text = f"the workload '{target['name']}' of type '{type_text(target)}' {managed}"
            yield Refusal("other-autoscaler", _TARGET, text, "one ScaledObject per workload")
        elif hpa_name(other) == hpa_name(manifest):
            text = f"the HPA '{hpa_name(manifest)}' {managed}"
            yield Refusal("other-autoscaler", _HPA_NAME, text, "another name")


def _resource_triggers(spec: Mapping[str, Any], cluster: ClusterView) -> Iterator[Refusal]:
    wanted = [item for item in spec["triggers"] if item["type"] in RESOURCE_TYPES]
    version, kind = target_type(spec["scaleTargetRef"])
    if not wanted or version != "apps/v1" or kind not in {"Deployment", "StatefulSet"}:
        return
    name = spec["scaleTargetRef"]["name"]
    if cluster.lacks_workload(kind, name):
        text = f'{kind} "{name}" not found'
        yield Refusal("target-missing", _TARGET, text, "apply the workload first")
        return
    workload = cluster.workload(kind, name)
    for trigger in wanted if workload is not None else ():
        only = str(trigger["metadata"].get("containerName") or "")
        for container in lacking_request(workload or {}, trigger["type"], only, cluster):
            text = f"the container {container} has no {trigger['type']} request"
            instead = "resources.requests of that container"
            yield Refusal("request-missing", _TARGET, text, instead)
    if len(wanted) == len(spec["triggers"]) and not spec.get("minReplicaCount"):
        text = "cpu and memory alone cannot scale to zero"
        yield Refusal(
            "resource-only-to-zero", "spec.minReplicaCount", text, "1, or another trigger"
        )


def lacking_request(
    workload: Manifest, resource: str, container_name: str, cluster: ClusterView
) -> Iterator[str]:
    """Yield the containers without a request or limit for the resource.

    Requests of the pod as a whole count unless one container is named; defaults of a LimitRange
    count for every container.
    """
    pod = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    if not container_name and is_requested(pod.get("resources"), resource):
        return
    has_default = any(
        item.get("type") == "Container"
        and is_requested(item, resource, of=("default", "defaultRequest"))
        for limit_range in cluster.limit_ranges
        for item in (limit_range.get("spec") or {}).get("limits") or []
    )
    for container in pod.get("containers") or []:
        name = container.get("name", "")
        is_meant = name == container_name or not container_name
        if is_meant and not has_default and not is_requested(container.get("resources"), resource):
            yield name


def is_requested(
    given: Mapping[str, Any] | None, resource: str, of: tuple[str, ...] = ("requests", "limits")
) -> bool:
    """Return whether a request or limit above zero is given; a limit alone becomes the request."""
    quantities = [((given or {}).get(key) or {}).get(resource) for key in of]
    return any(
        quantity is not None and parse_milli(quantity, where="resources", field="quantity") > 0
        for quantity in quantities
    )


def _hpas(manifest: Manifest, cluster: ClusterView) -> Iterator[Refusal]:
    target, metadata = manifest["spec"]["scaleTargetRef"], manifest.get("metadata") or {}
    config = (manifest["spec"].get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    takes_over = (metadata.get("annotations") or {}).get(_TRANSFER) == "true"
    for hpa in cluster.hpas:
        theirs = hpa["spec"].get("scaleTargetRef") or {}
        found = hpa.get("metadata") or {}
        is_free = (found.get("annotations") or {}).get(_NOT_OWNED) == "false"
        if is_free or theirs.get("name") != target["name"]:
            continue
        unknown = _unknown_kind(theirs, cluster)
        if unknown is not None:
            yield unknown  # it cannot say whether that HPA is on the same workload
            continue
        owners = [(o.get("kind"), o.get("name")) for o in found.get("ownerReferences") or ()]
        is_own = (manifest.get("kind"), _name(manifest)) in owners
        if is_own or type_text(theirs) != type_text(target):
            continue
        workload = f"the workload '{target['name']}' of type '{type_text(target)}'"
        if not takes_over:
            text = f"{workload} is already managed by the hpa '{_name(hpa)}'"
            yield Refusal("other-autoscaler", _TARGET, text, "delete that HPA first")
        elif config.get("name") != _name(hpa):
            text = f"to take over the hpa '{_name(hpa)}' of {workload} it must be named here"
            yield Refusal("other-autoscaler", _HPA_NAME, text, "the name of that HPA")


def _fallback(spec: Mapping[str, Any]) -> Iterator[Refusal]:
    """Require a trigger that can fall back."""
    if spec.get("fallback") is None or uses_modifiers(spec):
        return
    if all(trigger["type"] in RESOURCE_TYPES for trigger in spec["triggers"]):
        text = "cpu and memory have no fallback"
        yield Refusal("fallback-without-metric", "spec.fallback", text, "a trigger that KEDA polls")
