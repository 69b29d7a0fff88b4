"""Remove what runs leave in the bench: workloads, topics, groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagbench.adapters.kafka_admin import KafkaAdmin
from lagbench.adapters.kube import Kube
from lagbench.core.manifests import POLICY_KINDS
from lagbench.core.run import GROUP_PREFIX, POLICY_OBJECT, RUN_ID_LABEL, TOPIC_PREFIX

PODS_GONE_TIMEOUT_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed."""

    workloads: list[str]
    topics: list[str]
    groups: list[str]


def remove_everything(kube: Kube, admin: KafkaAdmin, say: Callable[[str], None]) -> Removed:
    """Remove every run's workloads, topics and groups; one cell runs at a time, so all are dead.

    Topics go after the pods: a pod that lost its topic would log errors and hang in its drain.
    """
    workloads = remove_workloads(kube, f"{RUN_ID_LABEL}")
    topics = admin.topic_names(TOPIC_PREFIX)
    admin.delete_topics(topics)
    groups = admin.group_ids(GROUP_PREFIX)
    for group in groups:
        admin.delete_group(group)
    removed = Removed(workloads=workloads, topics=topics, groups=groups)
    say(f"removed workloads {workloads}, topics {topics}, groups {groups}")
    return removed


def remove_workloads(kube: Kube, label_selector: str) -> list[str]:
    """Delete policies, and what has the labels; wait until the pods are gone."""
    deleted = [kind for kind in POLICY_KINDS if kube.delete(kind, POLICY_OBJECT)]
    removed = [f"{kind}/{POLICY_OBJECT}" for kind in deleted]
    for kind in ("Job", "Deployment", "Service"):
        for found in kube.list(kind, label_selector=label_selector):
            name = found["metadata"]["name"]
            if kube.delete(kind, name):
                removed.append(f"{kind}/{name}")
    kube.wait_gone("Pod", label_selector=label_selector, timeout_seconds=PODS_GONE_TIMEOUT_SECONDS)
    return removed
