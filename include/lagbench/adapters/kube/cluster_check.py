"""Check a cluster before a run: KEDA, the account's rights, objects in the way.

All that is missing is reported at once, before anything is created. ``read_cluster_facts`` reads
what KEDA's webhook looks at before it lets the ScaledObjects of a file in; it only gets and lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.adapters.kube.kube_client import translated
from lagbench.core.cluster.manifests import for_group, is_foreign
from lagbench.core.cluster.policy_manifest import HPA, POLICY_KINDS, SCALED_OBJECT, Right
from lagbench.core.keda.object.scaled_object_rules import hpa_name
from lagbench.core.object_meta import subdomain_problems
from lagbench.core.policy.admission.webhook import Manifest
from lagbench.core.policy.review.cluster_facts import ClusterFacts, PolicyDocuments
from lagbench.core.scenario.consumer_kinds import SPARK_DRIVER, SPARK_MASTER
from lagbench.core.scenario.run_names import RunNames
from lagbench.errors import NotAllowed, NotReady, WrongInput
from lagbench.project import PROJECT_ROOT

if TYPE_CHECKING:
    from lagbench.adapters.kube.kube import Kube

_WORKLOADS = ("consumer", "recorder", "lag-scaler", SPARK_MASTER, SPARK_DRIVER)
"""Folders of k8s/base; with a second group, its own names too."""
_ACTIONS = "actions"
"""A folder whose objects have a fixed name, but not its Job, which has the run's."""
ANY_RUN = "any"
_KEPT = "PersistentVolumeClaim"  # stays from run to run, and an overlay may have made it
KEDA_GROUP = "keda.sh"
EXTERNAL_METRICS = "external.metrics.k8s.io"

INSTALL_KEDA = (
    "Install KEDA 2.21: helm install keda kedacore/keda --namespace keda --create-namespace, "
    "or apply its release manifest keda-2.21.0.yaml (kubectl apply --server-side -f)"
)


def ready_namespace(kube: Kube) -> None:
    """Make the namespace where it is missing; one that is there keeps its labels."""
    if kube.get("Namespace", kube.namespace) is None:
        manifest = base_manifest("namespace", "Namespace")
        manifest["metadata"]["name"] = kube.namespace
        kube.apply(manifest)


def check_cluster(
    kube: Kube,
    rights: Sequence[Right],
    *,
    holder: str,
    has_second_group: bool = False,
    has_actions: bool = True,
    policies: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Reject a cluster in which a run cannot work, or would change objects of others.

    :param rights: what the run needs to do.
    :param holder: the Airflow that asks, as it holds the namespace's Lease; none is taken here.
    :param has_actions: whether the run has any, as far as it is known.
    :param policies: the run's; empty: they are not known yet.
    """
    client = kube.api_client
    _require_keda(client)
    reported = []
    for right in rights:
        verbs = [v for v in right.verbs if not _may_verb(client, kube.namespace, right, v)]
        reported += [f"{' '.join(verbs)} on {right.resource_text}"] if verbs else []
    if reported:
        raise NotReady(
            f"the account lacks permissions in namespace {kube.namespace} that a run needs: "
            f"{'; '.join(reported)}. "
            "Give it the Role of k8s/base/runner/rbac.yaml (kubectl apply -k k8s/overlays/context)"
        )
    ClusterLease(kube, holder).require_free()
    found = foreign_objects(
        kube, has_second_group=has_second_group, has_actions=has_actions, policies=policies
    )
    foreign = list(dict.fromkeys(found))  # accounts are of both groups
    if foreign:
        raise NotReady(
            f"namespace {kube.namespace} has objects that a run would replace although no run "
            f"created them: {', '.join(foreign)}. Delete it, or name another namespace in the "
            "target's settings"
        )


def _require_keda(client: Any) -> None:
    from kubernetes.client import ApisApi

    with translated("read the API groups", client.configuration.host):
        groups = {group.name for group in ApisApi(client).get_api_versions().groups}
    if KEDA_GROUP not in groups:
        raise NotReady(
            f"{client.configuration.host} has no KEDA: it does not serve the API group "
            f"{KEDA_GROUP}. {INSTALL_KEDA}"
        )
    if EXTERNAL_METRICS not in groups:
        raise NotReady(
            f"{client.configuration.host} serves ScaledObjects, but not "
            f"{EXTERNAL_METRICS}: KEDA's metrics server does not run. Check its pods "
            f"(kubectl -n keda get pods). {INSTALL_KEDA}"
        )


def _may_verb(client: Any, namespace: str, right: Right, verb: str) -> bool:
    from kubernetes.client import AuthorizationV1Api

    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "namespace": namespace,
                "verb": verb,
                "group": right.group,
                "resource": right.resource,
                "subresource": right.subresource,
            }
        },
    }
    with translated(f"check the permission to {verb} {right.resource}", client.configuration.host):
        answer = AuthorizationV1Api(client).create_self_subject_access_review(asked)
    return bool(answer.status.allowed)


def foreign_objects(
    kube: Kube,
    *,
    has_second_group: bool = False,
    has_actions: bool = True,
    policies: Sequence[Mapping[str, Any]] = (),
) -> Iterator[str]:
    """Name each object that a run would replace or scale although no run created it."""
    first = RunNames(ANY_RUN)
    folders = (*_WORKLOADS, _ACTIONS) if has_actions else _WORKLOADS
    for group in (first, first.second) if has_second_group else (first,):
        committed = [base_manifest(workload, "Deployment") for workload in _WORKLOADS]
        committed += [found for folder in folders for found in base_objects(folder)]
        made = [for_group(manifest, group) for manifest in committed]
        names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in made]
        for kind, name in [*names, ("StatefulSet", group.consumers)]:
            found = None if kind == _KEPT else kube.get(kind, name)
            if found is not None and is_foreign(found):
                yield f"{kind}/{name}"
        yield from policies_in_the_way(kube, group, policies)


def policies_in_the_way(
    kube: Kube, group: RunNames, policies: Sequence[Mapping[str, Any]] = ()
) -> Iterator[str]:
    """Name each policy that no run made and that scales the consumers, or has a name of the run's.

    An apply would overwrite one of a policy's name, whatever it scales. KEDA does not start a
    policy if the name of its HPA is taken.
    """
    metadata = {"name": group.policy_object}
    specs = [policy["spec"] for policy in policies if policy.get("kind") == SCALED_OBJECT]
    of_keda = {hpa_name({"metadata": metadata, "spec": spec}) for spec in ({}, *specs)}
    for kind in POLICY_KINDS:
        for found in kube.list(kind):
            target = (found.get("spec") or {}).get("scaleTargetRef") or {}
            owners = [
                owner.get("name")
                for owner in found["metadata"].get("ownerReferences") or []
                if owner.get("kind") == SCALED_OBJECT
            ]
            name = found["metadata"]["name"]
            is_on_ours = target.get("name") == group.consumers and not owners
            is_taken = kind == HPA and name in of_keda and group.policy_object not in owners
            is_in_the_way = name == group.policy_object or is_on_ours or is_taken
            if is_in_the_way and is_foreign(found):
                yield f"{kind}/{name}"


BASE = PROJECT_ROOT / "k8s" / "base"


def base_manifest(workload: str, kind: str) -> dict[str, Any]:
    """Return the object of ``kind`` in ``k8s/base/<workload>/``."""
    for document in _documents(workload):
        if document.get("kind") == kind:
            return document
    where = str((BASE / workload).relative_to(PROJECT_ROOT))
    raise WrongInput(where=where, field="kind", value=kind, allowed="one object")


def base_objects(
    workload: str, *, without: tuple[str, ...] = ("Deployment", "Job")
) -> list[dict[str, Any]]:
    """Return the workload's objects; by default (accounts, services, claims) what no run patches.

    A kustomization lists files for kubectl and is not an object of the API.
    """
    omitted = ("Kustomization", *without)
    return [found for found in _documents(workload) if found.get("kind") not in omitted]


def _documents(workload: str) -> Iterator[dict[str, Any]]:
    for path in sorted((BASE / workload).rglob("*.yaml")):
        loaded = yaml.safe_load_all(path.read_text(encoding="utf-8"))
        yield from (document for document in loaded if isinstance(document, dict))


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
        """Reject facts that are not known."""
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
