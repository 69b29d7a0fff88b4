"""Remove what runs leave in the bench: workloads, topics, groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.lease import SWEEP_SECONDS
from lagbench.core.cluster.policy_manifest import POLICY_KINDS
from lagbench.core.scenario.run_names import GROUP_PREFIX, RUN_ID_LABEL, TOPIC_PREFIX, RunNames
from lagbench.errors import NotReady

PODS_GONE_TIMEOUT_SECONDS = 180.0

_AFTER_GRACE_SECONDS = 30.0
"""For the end of a pod whose processes are killed after its grace period."""

_DEFAULT_GRACE_SECONDS = 30

WORKLOADS = ("Job", "Deployment", "StatefulSet", "Service")

ON_A_CLUSTER = ("PodDisruptionBudget", "RoleBinding", "Role", "ServiceAccount", "ConfigMap")
"""Kinds that a run creates beside its workloads on a cluster; not on localkube."""

ON_LOCALKUBE = ("ConfigMap", "Secret")
"""Kinds that a run creates for a user's consumer; on a cluster they are the user's."""


POLICY_GONE_TIMEOUT_SECONDS = 60.0

_EVENTS_OF_RUN = re.compile(rf"{re.escape(TOPIC_PREFIX)}(.+)\.events")


@dataclass(frozen=True, slots=True)
class Removed:
    """The removed objects."""

    workloads: list[str]
    topics: list[str]
    groups: list[str]


def _nothing() -> None:
    """Do nothing."""


def remove_everything(
    kube: Kube,
    admin: KafkaAdmin,
    say: Callable[[str], None],
    *,
    is_embedded: bool,
    before_topics: Callable[[], None] = _nothing,
) -> Removed:
    """Remove every run's workloads, topics and groups; one cell runs at a time, so all are dead.

    Topics go after the pods: a pod that lost its topic would log errors and hang in its shutdown.
    Groups go before them: only a run's topic distinguishes its group from one that others own.
    ``before_topics`` is called between workloads and topics; if it fails, all topics stay.
    """
    kinds = WORKLOADS + (ON_LOCALKUBE if is_embedded else ON_A_CLUSTER)
    workloads = remove_workloads(kube, f"{RUN_ID_LABEL}", kinds)
    say(f"removed workloads {workloads}")  # before Kafka, which may be away
    before_topics()
    topics = admin.topic_names(TOPIC_PREFIX)
    runs = [found[1] for topic in topics if (found := _EVENTS_OF_RUN.fullmatch(topic))]
    names = [RunNames(run_id) for run_id in runs]
    of_runs = {group.group for name in names for group in (name, name.second)}
    groups = [group for group in admin.group_ids(GROUP_PREFIX) if group in of_runs]
    for group in groups:
        admin.delete_group(group)
    admin.delete_topics(topics)
    removed = Removed(workloads=workloads, topics=topics, groups=groups)
    say(f"removed topics {topics}, groups {groups}")
    return removed


def clear_cluster(
    kube: Kube,
    admin: KafkaAdmin,
    say: Callable[[str], None],
    *,
    holder: str,
    run_id: str,
    before_topics: Callable[[], None] = _nothing,
) -> Removed:
    """Remove everything at the end of a run on a cluster, and give the namespace back.

    :raises NotReady: another Airflow holds the namespace by now: what is there is its own. Or it is
        not clean: the Lease stays then, for the next run of this Airflow or until it expires.
    """
    lease = ClusterLease(kube, holder)
    lease.acquire(run_id, duration_seconds=SWEEP_SECONDS)
    removed = remove_everything(kube, admin, say, is_embedded=False, before_topics=before_topics)
    lease.release()
    return removed


def remove_workloads(
    kube: Kube, label_selector: str, kinds: Sequence[str] = WORKLOADS
) -> list[str]:
    """Delete policies first, then the other ``kinds``; wait until policies and pods are deleted.

    Only objects with the labels: a foreign ScaledObject may have the same name.
    """
    removed: list[str] = []
    for kind in (*POLICY_KINDS, *kinds):
        for found in kube.list(kind, label_selector=label_selector):
            name = found["metadata"]["name"]
            if kube.delete(kind, name):
                removed.append(f"{kind}/{name}")
    # KEDA takes its finalizer off when it has let the target go; without KEDA it stays for good.
    for kind in POLICY_KINDS:
        kube.wait_gone(
            kind, label_selector=label_selector, timeout_seconds=POLICY_GONE_TIMEOUT_SECONDS
        )
    leaving_seconds = _leaving_seconds(kube, label_selector)
    kube.wait_gone("Pod", label_selector=label_selector, timeout_seconds=leaving_seconds)
    return removed


def _leaving_seconds(kube: Kube, label_selector: str) -> float:
    """Return how long the pods may take to end: a user's own may have a long grace period."""
    pods = kube.list("Pod", label_selector=label_selector)
    graces = [
        float((pod.get("spec") or {}).get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS))
        for pod in pods
    ]
    return max(PODS_GONE_TIMEOUT_SECONDS, max(graces, default=0.0) + _AFTER_GRACE_SECONDS)


HAD_REPLICAS = "lagbench.io/replicas-before-action"

_GONE_SECONDS, _READY_SECONDS = 60.0, 60.0


def set_aside(kube: Kube, deployment: str) -> None:
    """Scale ``deployment`` to zero and note its replicas; return when it has no pod.

    :raises NotReady: there is none, or its pods stay.
    """
    found = kube.get("Deployment", deployment)
    if found is None:
        raise NotReady(f"there is no Deployment {deployment} in namespace {kube.namespace}")
    had = _noted(found) or int(found["spec"].get("replicas", 1))
    note = {"annotations": {HAD_REPLICAS: str(had)}}
    kube.merge("Deployment", deployment, {"metadata": note, "spec": {"replicas": 0}})
    labels = found["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    kube.wait_gone("Pod", label_selector=selector, timeout_seconds=_GONE_SECONDS)


def bring_back(kube: Kube, deployment: str) -> bool:
    """Give ``deployment`` its noted replicas back and wait until they are Ready; False: none noted.

    :raises NotReady: its pods do not become Ready.
    """
    found = kube.get("Deployment", deployment)
    had = None if found is None else _noted(found)
    if had is None:
        return False
    note = {"annotations": {HAD_REPLICAS: None}}
    kube.merge("Deployment", deployment, {"metadata": note, "spec": {"replicas": had}})
    kube.wait_until(
        lambda kube: _ready(kube.get("Deployment", deployment) or {}) >= had,
        timeout_seconds=_READY_SECONDS,
        what=f"{had} Ready pods of Deployment/{deployment}",
    )
    return True


def _noted(deployment: dict[str, Any]) -> int | None:
    text = (deployment["metadata"].get("annotations") or {}).get(HAD_REPLICAS)
    return None if text is None else int(text)


def _ready(deployment: dict[str, Any]) -> int:
    return int((deployment.get("status") or {}).get("readyReplicas") or 0)
