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

KindAndName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of one namespace of the cluster ``source``.

    Facts that the review does not need are not read, and None. ``workloads`` and
    ``authentications`` hold all requested objects by kind and name: None and False if missing.
    ``kinds``: (apiVersion, kind) of all that the API server serves of ``groups``, the API groups
    that the file's targets are of. ``kubernetes``: the API server's version.
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
    kubernetes: str | None = None

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
            "kubernetes": self.kubernetes,
            "scaled_objects": _names(self.scaled_objects),
            "horizontal_pod_autoscalers": _names(self.hpas),
            "limit_ranges": _names(self.limit_ranges),
            "objects": {f"{kind} {name}": there for (kind, name), there in presence.items()},
            "api_groups": None
            if self.kinds is None
            else {group or "core": group in served for group in sorted(self.groups)},
        }


class PolicyDocuments:
    """The documents of a file that go to one namespace, and what of a cluster bears on them.

    A document without a namespace goes there, too.
    """

    def __init__(self, documents: Sequence[Any], namespace: str) -> None:
        """Take those that are objects."""
        every = [mapping(item) for item in documents]
        self._near = [
            item
            for item in every
            if str(mapping(item.get("metadata")).get("namespace") or namespace) == namespace
        ]
        self._own = {_key(item): item for item in every if item.get("kind") == AUTHENTICATIONS[1]}
        self._own |= {_key(item): item for item in self._near}
        self.scaled_objects = [item for item in self._near if item.get("kind") == "ScaledObject"]
        hpas = [item for item in self._near if item.get("kind") == "HorizontalPodAutoscaler"]
        self.has_policies = bool(self.scaled_objects or hpas)

    def wanted_workloads(self) -> list[KindAndName]:
        """Return kind and name of the targets that the file itself does not hold."""
        wanted = map(_target_workload, self.scaled_objects)
        return [key for key in dict.fromkeys(wanted) if key is not None and key not in self._own]

    def wanted_authentications(self) -> list[KindAndName]:
        """Return kind and name of the logins that the file names, but does not hold."""
        wanted = [
            (str(reference.get("kind") or AUTHENTICATIONS[0]), str(reference["name"]))
            for policy in self.scaled_objects
            for trigger in _triggers(policy)
            if (reference := mapping(trigger.get("authenticationRef"))).get("name")
        ]
        known = dict.fromkeys(key for key in wanted if key[0] in AUTHENTICATIONS)
        return [key for key in known if key not in self._own]

    def wanted_groups(self, hpas: Iterable[Manifest]) -> frozenset[str]:
        """Return the API groups of the targets, and of HPAs' targets that have the name of one.

        The webhook assumes Deployments and StatefulSets, and looks up all other kinds.
        """
        names = {str(_target(policy).get("name") or "") for policy in self.scaled_objects}
        own = [item for item in self._near if item.get("kind") == "HorizontalPodAutoscaler"]
        beside = [i for i in (*hpas, *own) if str(_target(i).get("name") or "") in names]
        types = (target_type(_target(item)) for item in (*self.scaled_objects, *beside))
        return frozenset(
            version.rpartition("/")[0]
            for version, kind in types
            if kind not in WORKLOADS and version.count("/") <= 1
        )

    def wants_limit_ranges(self, workloads: Iterable[Manifest]) -> bool:
        """Return whether a default can decide: a container of a target lacks a request."""
        known = {_key(item): item for item in workloads} | self._own
        return any(
            any(lacking_request(known[key], str(trigger.get("type")), "", ClusterView()))
            for policy in self.scaled_objects
            if (key := _target_workload(policy)) in known
            for trigger in _triggers(policy)
            if key is not None and trigger.get("type") in RESOURCE_TYPES
        )


def name_of(manifest: Manifest) -> str:
    """Return the object's name, empty when it has none."""
    return str(mapping(manifest.get("metadata")).get("name") or "")


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for all else that a file may hold there."""
    return value if isinstance(value, Mapping) else {}


def _names(found: Sequence[Manifest] | None) -> list[str] | None:
    return None if found is None else [name_of(item) for item in found]


def _key(manifest: Manifest) -> KindAndName:
    return str(manifest.get("kind")), name_of(manifest)


def _target(policy: Manifest) -> Mapping[str, Any]:
    return mapping(mapping(policy.get("spec")).get("scaleTargetRef"))


def _target_workload(policy: Manifest) -> KindAndName | None:
    """Return kind and name of a target that is a workload of Kubernetes itself."""
    target = _target(policy)
    (version, kind), name = target_type(target), str(target.get("name") or "")
    return (kind, name) if version == "apps/v1" and kind in WORKLOADS and name else None


def _triggers(policy: Manifest) -> Iterator[Mapping[str, Any]]:
    triggers = mapping(policy.get("spec")).get("triggers")
    yield from map(mapping, triggers if isinstance(triggers, list) else ())
