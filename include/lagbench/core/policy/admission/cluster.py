"""Hold the other objects of the cluster: the webhook reads them before it admits a ScaledObject."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

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
