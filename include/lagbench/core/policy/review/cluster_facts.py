"""Define the facts that a review reads from a cluster beside its file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.keda.triggers.trigger_types import RESOURCE_TYPES
from lagbench.core.policy.admission.webhook import (
    ClusterView,
    Manifest,
    lacking_request,
    target_type,
)

WORKLOADS = ("Deployment", "StatefulSet")
AUTHENTICATIONS = ("TriggerAuthentication", "ClusterTriggerAuthentication")
_WORKLOADS_VERSION = "apps/v1"

KindAndName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of one namespace of the cluster ``source``.

    Facts that the review does not need are not read, and None. ``workloads`` and
    ``authentications`` hold all requested objects by kind and name: None and False if missing.
    ``kinds``: (apiVersion, kind) of all that the API server serves of ``groups``, the API groups
    that the file's targets are of.
    """

    source: str
    namespace: str
    scaled_objects: tuple[Manifest, ...] | None = None
    hpas: tuple[Manifest, ...] | None = None
    workloads: Mapping[KindAndName, Manifest | None] = field(default_factory=dict)
    authentications: Mapping[KindAndName, bool] = field(default_factory=dict)
    limit_ranges: tuple[Manifest, ...] | None = None
    groups: frozenset[str] = frozenset()
    kinds: frozenset[tuple[str, str]] | None = None

    def view(self) -> ClusterView:
        """Return what the webhook sees there."""
        return ClusterView(
            scaled_objects=self.scaled_objects or (),
            hpas=self.hpas or (),
            workloads=tuple(item for item in self.workloads.values() if item is not None),
            limit_ranges=self.limit_ranges or (),
            missing=frozenset(key for key, item in self.workloads.items() if item is None),
            kinds=self.kinds,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return for JSON what was looked at, objects by name; None: not asked."""
        presence = {key: item is not None for key, item in self.workloads.items()}
        presence |= self.authentications
        served = {version.rpartition("/")[0] for version, _ in self.kinds or ()}
        return {
            "target": self.source,
            "namespace": self.namespace,
            "scaled_objects": _names(self.scaled_objects),
            "horizontal_pod_autoscalers": _names(self.hpas),
            "limit_ranges": _names(self.limit_ranges),
            "objects": {f"{kind} {name}": there for (kind, name), there in presence.items()},
            "api_groups": None
            if self.kinds is None
            else {group or "core": group in served for group in sorted(self.groups)},
        }


def scaled_objects_of(documents: Sequence[Any], namespace: str) -> list[Manifest]:
    """Return the ScaledObjects that go to a namespace; a document without one goes there too."""
    return [item for item in _near(documents, namespace) if item.get("kind") == "ScaledObject"]


def wanted_workloads(documents: Sequence[Any], namespace: str) -> list[KindAndName]:
    """Return kind and name of the targets that the file itself does not hold."""
    own = {_key(item) for item in _near(documents, namespace)}
    wanted = map(_target_workload, scaled_objects_of(documents, namespace))
    return [key for key in dict.fromkeys(wanted) if key is not None and key not in own]


def wanted_authentications(documents: Sequence[Any], namespace: str) -> list[KindAndName]:
    """Return kind and name of the logins that the file names, but does not hold."""
    own = {_key(item) for item in _near(documents, namespace)}
    own |= {_key(item) for item in documents if mapping(item).get("kind") == AUTHENTICATIONS[1]}
    wanted = [
        (str(reference.get("kind") or AUTHENTICATIONS[0]), str(reference["name"]))
        for policy in scaled_objects_of(documents, namespace)
        for trigger in _triggers(policy)
        if (reference := mapping(trigger.get("authenticationRef"))).get("name")
    ]
    return [key for key in dict.fromkeys(wanted) if key[0] in AUTHENTICATIONS and key not in own]


def wanted_groups(
    documents: Sequence[Any], namespace: str, hpas: Iterable[Manifest]
) -> frozenset[str]:
    """Return the API groups of the targets, and of HPAs' targets that have the name of one.

    The webhook assumes Deployments and StatefulSets, and looks up all other kinds.
    """
    policies = scaled_objects_of(documents, namespace)
    names = {_target_name(policy) for policy in policies}
    own = [i for i in _near(documents, namespace) if i.get("kind") == "HorizontalPodAutoscaler"]
    beside = [item for item in (*hpas, *own) if _target_name(item) in names]
    types = (target_type(_target(item)) for item in (*policies, *beside))
    return frozenset(
        version.rpartition("/")[0]
        for version, kind in types
        if kind not in WORKLOADS and version.count("/") <= 1
    )


def wants_limit_ranges(
    documents: Sequence[Any], namespace: str, workloads: Iterable[Manifest]
) -> bool:
    """Return whether a default can decide: a container of a target lacks a required request."""
    known = {_key(item): item for item in (*workloads, *_near(documents, namespace))}
    for policy in scaled_objects_of(documents, namespace):
        key = _target_workload(policy)
        workload = None if key is None else known.get(key)
        wanted = {str(item.get("type")) for item in _triggers(policy)} & set(RESOURCE_TYPES)
        for resource in wanted if workload is not None else ():
            if any(lacking_request(workload or {}, resource, "", ClusterView())):
                return True
    return False


def name_of(manifest: Manifest) -> str:
    """Return the object's name, empty when it has none."""
    return str(mapping(manifest.get("metadata")).get("name") or "")


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for all else that a file may hold there."""
    return value if isinstance(value, Mapping) else {}


def _names(found: Sequence[Manifest] | None) -> list[str] | None:
    return None if found is None else [name_of(item) for item in found]


def _near(documents: Sequence[Any], namespace: str) -> Iterator[Manifest]:
    for item in map(mapping, documents):
        if str(mapping(item.get("metadata")).get("namespace") or namespace) == namespace:
            yield item


def _key(manifest: Any) -> KindAndName:
    return str(mapping(manifest).get("kind")), name_of(mapping(manifest))


def _target(policy: Manifest) -> Mapping[str, Any]:
    return mapping(mapping(policy.get("spec")).get("scaleTargetRef"))


def _target_name(policy: Manifest) -> str:
    return str(_target(policy).get("name") or "")


def _target_workload(policy: Manifest) -> KindAndName | None:
    """Return kind and name of a target that is a workload of Kubernetes itself."""
    target = _target(policy)
    version, kind = target_type(target)
    name = _target_name(policy)
    is_workload = version == _WORKLOADS_VERSION and kind in WORKLOADS
    return (kind, name) if is_workload and name else None


def _triggers(policy: Manifest) -> Iterator[Mapping[str, Any]]:
    triggers = mapping(policy.get("spec")).get("triggers")
    yield from map(mapping, triggers if isinstance(triggers, list) else ())
