"""Two consumer groups of a run on one topic: real broker, localkube, consumers, recorders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun, consumer_group_run
from tests.integration.localkube_process import running_localkube

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kube.cluster_check import base_manifest, ready_namespace
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import remove_workloads
from lagbench.core.cluster.manifests import RunTarget, consumer_for_run, recorder_for_run
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.records_of_recorder import (
    GroupMembers,
    LagSample,
    PodSeen,
    ReplicaSample,
)
from lagbench.embedded.broker import Broker

pytestmark = pytest.mark.slow
PARTITIONS, EVENTS = 4, 600
PODS = (2, 1)
"""Of the first and of the second group."""
SETTINGS = (ConsumerSettings(process_ms=1), ConsumerSettings(process_ms=2, balancer="range"))


@pytest.fixture
def groups(broker: Broker, tmp_path: Path) -> Iterator[tuple[ConsumerGroupRun, ConsumerGroupRun]]:
    """Provide the topics of a run with two groups, as each group sees them."""
    with consumer_group_run(broker.bootstrap_servers, tmp_path, partitions=PARTITIONS) as first:
        second = replace(first, names=first.names.second, pods={})
        own = [
            TopicSpec(second.names.processed_topic, 6),
            TopicSpec(second.names.telemetry_topic, 1),
        ]
        with KafkaAdmin(broker.bootstrap_servers) as admin:
            admin.create_topics(own)
        yield first, second


@pytest.fixture
def cluster(groups: tuple[ConsumerGroupRun, ConsumerGroupRun], tmp_path: Path) -> Iterator[Kube]:
    """Provide localkube with both groups' consumers and recorders; they end with it."""
    with running_localkube(tmp_path / "state") as localkube:
        kube = Kube.from_kubeconfig(localkube.kubeconfig)
        ready_namespace(kube)
        for group, settings, replicas in zip(groups, SETTINGS, PODS, strict=True):
            target = RunTarget(group.names, group.bootstrap_servers)
            committed = base_manifest("consumer", "Deployment")
            kube.apply(consumer_for_run(committed, target, settings, replicas=replicas))
            recorder = base_manifest("recorder", "Deployment")
            made = recorder_for_run(
                recorder, target, kubeconfig=str(localkube.kubeconfig), is_embedded=True
            )
            kube.apply(made)
        yield kube
        kube.close()


def test_each_group_reads_and_records_everything_of_its_own(
    groups: tuple[ConsumerGroupRun, ConsumerGroupRun], cluster: Kube, kafka_admin: KafkaAdmin
) -> None:
    """Each ledger has all events by its own pods; each recorder sees its pods and members only."""
    for group, pods in zip(groups, PODS, strict=True):
        group.await_members(kafka_admin, pods)
    groups[0].offer(EVENTS)

    for group, pods in zip(groups, PODS, strict=True):
        rows = group.await_processed(EVENTS)
        own = f"{group.names.consumers}-"
        assert sorted(rows.seq) == list(range(EVENTS))
        assert all(str(pod).startswith(own) for pod in np.unique(rows.pod))

        def members_seen(group: ConsumerGroupRun = group, pods: int = pods) -> bool:
            seen, replicas = group.telemetry(GroupMembers), group.telemetry(ReplicaSample)
            has_members = bool(seen) and len(seen[-1].members) == pods
            has_replicas = bool(replicas) and replicas[-1].spec == pods
            return has_members and has_replicas and bool(group.telemetry(PodSeen))

        eventually(members_seen, "the recorder's view of the group")
        members = group.telemetry(GroupMembers)[-1].members
        assert all(member.client_id.startswith(own) for member in members)
        assert {seen.pod.startswith(own) for seen in group.telemetry(PodSeen)} == {True}
        assert {len(found.partitions) for found in group.telemetry(LagSample)} == {PARTITIONS}

    run_id = groups[0].names.run_id
    removed = remove_workloads(cluster, f"{RUN_ID_LABEL}={run_id}")
    assert {name.partition("/")[2] for name in removed} == {
        "consumer",
        "recorder",
        "second-consumer",
        "second-recorder",
    }
