"""Clean up: remove what all runs have left, in Kubernetes and in Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import WORKLOADS, remove_workloads
from lagbench.core.cluster.lease import SWEEP_SECONDS
from lagbench.core.scenario.run_names import GROUP_PREFIX, RUN_ID_LABEL, TOPIC_PREFIX, RunNames

ON_A_CLUSTER = ("PodDisruptionBudget", "RoleBinding", "Role", "ServiceAccount", "ConfigMap")
"""Kinds that a run creates beside its workloads on a cluster; not on localkube."""
ON_LOCALKUBE = ("ConfigMap", "Secret")
"""Kinds that a run creates for a user's consumer; on a cluster they are the user's."""
_EVENTS_OF_RUN = re.compile(rf"{re.escape(TOPIC_PREFIX)}(.+)\.events")


@dataclass(frozen=True, slots=True)
class Removed:
    """The removed objects."""

    workloads: list[str]
    topics: list[str]
    groups: list[str]


def remove_everything(
    kube: Kube,
    admin: KafkaAdmin,
    say: Callable[[str], None],
    *,
    is_embedded: bool,
    before_topics: Callable[[], None] = lambda: None,
) -> Removed:
    """Remove every run's workloads, topics and groups; one cell runs at a time, so all are dead.

    Topics go after the pods: a pod that lost its topic would log errors and hang in its shutdown.
    Groups go before them: only a run's topic distinguishes its group from one that others own.
    ``before_topics`` is called between workloads and topics; if it fails, all topics stay.
    """
    kinds = WORKLOADS + (ON_LOCALKUBE if is_embedded else ON_A_CLUSTER)
    workloads = remove_workloads(kube, RUN_ID_LABEL, kinds)
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
    before_topics: Callable[[], None] = lambda: None,
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
