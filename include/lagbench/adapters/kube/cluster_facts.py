"""Read from a cluster what KEDA's webhook looks at before it lets the ScaledObjects of a file in.

Only gets and lists; nothing is written, not even for a dry run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lagbench.adapters.kube.cluster_check import INSTALL_KEDA, KEDA_GROUP
from lagbench.core.cluster.policy_manifest import Right
from lagbench.core.object_meta import subdomain_problems
from lagbench.core.policy.admission.webhook import Manifest
from lagbench.core.policy.review.cluster_facts import ClusterFacts, PolicyDocuments
from lagbench.errors import NotAllowed, NotReady

_API_GROUPS_AND_RESOURCES = {
    "ScaledObject": (KEDA_GROUP, "scaledobjects"),
    "TriggerAuthentication": (KEDA_GROUP, "triggerauthentications"),
    "ClusterTriggerAuthentication": (KEDA_GROUP, "clustertriggerauthentications"),
    "HorizontalPodAutoscaler": ("autoscaling", "horizontalpodautoscalers"),
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "LimitRange": ("", "limitranges"),
}


class ReadableKube(Protocol):
    """The verbs of ``Kube`` that only read."""

    namespace: str

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the object, or None when there is none."""

    def list(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind in the namespace."""


class Discovery(Protocol):
    """The answers of ``ApiDiscovery``."""

    def kinds(self, group: str) -> frozenset[tuple[str, str]]:
        """Return apiVersion and kind of all that a group serves."""


def read_cluster_facts(
    kube: ReadableKube,
    discovery: Discovery,
    documents: Sequence[Any],
    *,
    source: str,
    knows_kinds: bool = True,
) -> ClusterFacts:
    """Return what of the namespace bears on the ScaledObjects of a file, and no more.

    ``source`` names the cluster. ``knows_kinds`` False: it serves fewer kinds than a cluster does,
    so a kind that it lacks is left out, as is what there would be of it.

    :raises NotReady: it has no KEDA, does not answer, or the account lacks a right.
    """
    namespace = kube.namespace
    file = PolicyDocuments(documents, namespace)
    if not file.scaled_objects:
        return ClusterFacts(source, namespace)
    if "ScaledObject" not in {kind for _, kind in discovery.kinds(KEDA_GROUP)}:
        raise NotReady(f"{source} has no KEDA: it does not serve ScaledObjects. {INSTALL_KEDA}")
    reader = _Reader(kube, discovery)
    scaled_objects, hpas = reader.all("ScaledObject"), reader.all("HorizontalPodAutoscaler")
    workloads = {
        (kind, name): reader.one(kind, name)
        for kind, name in file.wanted_workloads()
        if knows_kinds or reader.is_served(kind)
    }
    authentications = {key: reader.one(*key) is not None for key in file.wanted_authentications()}
    found = [item for item in workloads.values() if item is not None]
    lists_defaults = knows_kinds or reader.is_served("LimitRange")
    asks_defaults = lists_defaults and file.wants_limit_ranges(found)
    limit_ranges = reader.all("LimitRange") if asks_defaults else None
    reader.require_rights()
    groups = file.wanted_groups(hpas) if knows_kinds else frozenset()
    kinds = frozenset(pair for group in groups for pair in discovery.kinds(group))
    return ClusterFacts(
        source,
        namespace,
        scaled_objects=scaled_objects,
        hpas=hpas,
        workloads=workloads,
        authentications=authentications,
        limit_ranges=limit_ranges,
        groups=groups,
        kinds=kinds if knows_kinds else None,
    )


class _Reader:
    """Reads on after a missing right, so that all of them are reported at once."""

    def __init__(self, kube: ReadableKube, discovery: Discovery) -> None:
        self._kube, self._discovery = kube, discovery
        self._lacking: list[Right] = []

    def all(self, kind: str) -> tuple[Manifest, ...]:
        """Return all objects of a kind in the namespace; none of a kind that is not served."""
        try:
            return tuple(self._kube.list(kind)) if self.is_served(kind) else ()
        except NotAllowed:
            self._lacks("list", kind)
            return ()

    def one(self, kind: str, name: str) -> Manifest | None:
        """Return an object; None when there is none, also for a name that none can have."""
        if any(subdomain_problems(name)) or not self.is_served(kind):
            return None
        try:
            return self._kube.get(kind, name)
        except NotAllowed:
            self._lacks("get", kind)
            return None

    def require_rights(self) -> None:
        """Reject facts that are not known.

        :raises NotAllowed: names each verb that the account lacks.
        """
        if self._lacking:
            listed = "; ".join(f"{r.verbs[0]} on {r.resource_text}" for r in self._lacking)
            raise NotAllowed(
                f"the account lacks permissions in namespace {self._kube.namespace} to read the "
                f"objects that KEDA's webhook reads: {listed}. Give it a Role with these verbs, or "
                "check without --target"
            )

    def _lacks(self, verb: str, kind: str) -> None:
        group, resource = _API_GROUPS_AND_RESOURCES[kind]
        right = Right(group, resource, (verb,))
        if right not in self._lacking:
            self._lacking.append(right)

    def is_served(self, kind: str) -> bool:
        """Return whether the API serves a kind."""
        group, _ = _API_GROUPS_AND_RESOURCES[kind]
        return kind in {served for _, served in self._discovery.kinds(group)}
