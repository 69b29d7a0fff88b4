"""KEDA 2.21's admission webhook for ScaledObjects: the rules that look at the cluster.

The webhook runs its checks in random order and answers with the first that fails; here all that
fail are returned. The later checks of the *operator* (a trigger's parameters) are not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lagbench.core.keda.object.scaled_object_rules import hpa_name, object_refusals, uses_modifiers
from lagbench.core.keda.triggers.trigger_types import RESOURCE_TYPES
from lagbench.core.kubernetes_values import parse_milli
from lagbench.core.object_schema import Refusal

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
        text = f"{version} is not GROUP/VERSION"
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


Manifest = Mapping[str, Any]

_KINDS = {
    "v1": "ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
    "PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service "
    "ServiceAccount",
    "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    "autoscaling/v1": "HorizontalPodAutoscaler",
    "autoscaling/v2": "HorizontalPodAutoscaler",
    "batch/v1": "CronJob Job",
    "coordination.k8s.io/v1": "Lease",
    "keda.sh/v1alpha1": "ClusterTriggerAuthentication ScaledJob ScaledObject TriggerAuthentication",
    "networking.k8s.io/v1": "Ingress IngressClass NetworkPolicy",
    "policy/v1": "PodDisruptionBudget",
}

BUILT_IN_KINDS = frozenset(
    (version, kind) for version, kinds in _KINDS.items() for kind in kinds.split()
)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The known objects of the cluster, all of one namespace.

    ``missing``: (kind, name) of workloads known not to be there; one that is neither listed nor
    missing is taken to be as the rules need it. ``kinds``: (apiVersion, kind) of all that the API
    server serves, at least of the API groups that are named in what is admitted; None: not asked.
    ``knows_all_kinds`` False: kinds of other custom resources may be installed, so an unknown one
    is not rejected.
    """

    scaled_objects: tuple[Manifest, ...] = ()
    hpas: tuple[Manifest, ...] = ()
    workloads: tuple[Manifest, ...] = ()
    limit_ranges: tuple[Manifest, ...] = ()
    missing: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    knows_all_kinds: bool = False
    kinds: frozenset[tuple[str, str]] | None = None

    def workload(self, kind: str, name: str) -> Manifest | None:
        """Return a workload's manifest; None when it is not known."""
        for manifest in self.workloads:
            metadata = manifest.get("metadata") or {}
            if (manifest.get("kind"), metadata.get("name")) == (kind, name):
                return manifest
        return None

    def without(self, uid: str | None) -> ClusterView:
        """Return the view without one ScaledObject and its HPA: as it was before that was made."""
        if uid is None:
            return self
        return replace(
            self,
            scaled_objects=tuple(item for item in self.scaled_objects if uid not in _uids(item)),
            hpas=tuple(item for item in self.hpas if uid not in _uids(item)),
        )

    def lacks_workload(self, kind: str, name: str) -> bool:
        """Return whether a workload is known not to be there."""
        return (kind, name) in self.missing

    def has_kind(self, api_version: str, kind: str) -> bool:
        """Return whether the API server serves that kind, as far as is known.

        KEDA's mapper also knows each kind in lower case, and as the kind of its lists; a group
        without a version stands for all its versions.
        """
        known = BUILT_IN_KINDS if self.kinds is None else self.kinds
        of_version = {
            found
            for version, found in known
            if version == api_version
            or (api_version[-1:] == "/" and version.startswith(api_version))
        }
        if {kind, kind.removesuffix("List")} & of_version or kind in map(str.lower, of_version):
            return True
        is_open = self.kinds is None and not self.knows_all_kinds
        return is_open and _group(api_version) not in map(_group, _KINDS)


def _uids(manifest: Manifest) -> set[str]:
    """Return the object's own uid and those of its owners."""
    metadata = manifest.get("metadata") or {}
    owners = metadata.get("ownerReferences") or ()
    return {str(item.get("uid")) for item in (metadata, *owners)}


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def target_type(target: Mapping[str, Any]) -> tuple[str, str]:
    """Return apiVersion and kind of a ``scaleTargetRef``, KEDA's defaults applied."""
    version = str(target.get("apiVersion") or "apps/v1")
    version = version.removeprefix("/") if version.count("/") == 1 else version
    return version, str(target.get("kind") or "Deployment")


def type_text(target: Mapping[str, Any]) -> str:
    """Return the target's type as KEDA writes it: group/version.Kind."""
    api_version, kind = target_type(target)
    group_version = api_version if "/" in api_version else f"/{api_version}"
    return f"{group_version}.{kind}"
