"""Check a cluster before a run: KEDA, the account's rights, objects in the way.

All that is missing is reported at once, before anything is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from lagbench.adapters.kube.client.kube_errors import translated
from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.core.cluster.manifests import for_group, is_foreign
from lagbench.core.cluster.policy_manifest import HPA, POLICY_KINDS, SCALED_OBJECT, Right
from lagbench.core.keda.object.scaled_object_rules import hpa_name
from lagbench.core.scenario.consumer_kinds import SPARK_DRIVER, SPARK_MASTER
from lagbench.core.scenario.run_names import RunNames
from lagbench.errors import NotReady, WrongInput
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
    :raises NotReady: no KEDA, a right that is missing, a rehearsal of another Airflow, or a foreign
        object in the way.
    """
    client = kube.api_client
    _require_keda(client)
    missing = [(right, _missing_verbs(client, kube.namespace, right)) for right in rights]
    reported = [f"{' '.join(verbs)} on {right.resource_text}" for right, verbs in missing if verbs]
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


def _missing_verbs(client: Any, namespace: str, right: Right) -> list[str]:
    return [verb for verb in right.verbs if not _may_verb(client, namespace, right, verb)]


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
    of_keda = _hpas_of_keda(group, policies)
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


def _hpas_of_keda(group: RunNames, policies: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the HPAs that KEDA creates for the group's policies."""
    metadata = {"name": group.policy_object}
    specs = [policy["spec"] for policy in policies if policy.get("kind") == SCALED_OBJECT]
    return {hpa_name({"metadata": metadata, "spec": spec}) for spec in ({}, *specs)}


BASE = PROJECT_ROOT / "k8s" / "base"


def base_manifest(workload: str, kind: str) -> dict[str, Any]:
    """Return the object of ``kind`` in ``k8s/base/<workload>/``.

    :raises WrongInput: there is none.
    """
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
