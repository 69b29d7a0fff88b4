"""The consumers as a StatefulSet on localkube, with a real broker: identities that survive."""

from __future__ import annotations

from itertools import chain

import pytest
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun
from tests.integration.localkube_process import LocalkubeProcess

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import RunTarget, consumer_for_run
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.records_of_programs import PartitionsAssigned, SigtermReceived

pytestmark = pytest.mark.slow
PARTITIONS = 6


def start(kube: Kube, run: ConsumerGroupRun, settings: ConsumerSettings, replicas: int) -> None:
    """Start the consumers as a run does."""
    target = RunTarget(run.names, run.bootstrap_servers)
    committed = base_manifest("consumer", "Deployment")
    kube.apply(consumer_for_run(committed, target, settings, replicas=replicas))


def owned(run: ConsumerGroupRun) -> dict[str, list[int]]:
    """Return what each pod last reported to own."""
    return {seen.source: sorted(seen.owned) for seen in run.telemetry(PartitionsAssigned)}


@pytest.mark.parametrize("grace_seconds", [30, 0])
def test_a_pod_that_comes_back_keeps_its_partitions(
    run: ConsumerGroupRun,
    localkube: LocalkubeProcess,
    kube: Kube,
    kafka_admin: KafkaAdmin,
    grace_seconds: int,
) -> None:
    """Within the session timeout a deleted or killed static member causes no rebalance."""
    settings = ConsumerSettings(workload="StatefulSet", static_membership=True)
    start(kube, run, settings, 2)
    run.await_members(kafka_admin, 2)
    eventually(
        lambda: sorted(chain.from_iterable(owned(run).values())) == list(range(PARTITIONS)),
        "each partition held by one of the two",
    )
    before, reported = owned(run), len(run.telemetry(PartitionsAssigned))
    assert sorted(before) == ["consumer-0", "consumer-1"]

    pods = localkube.client().resources.get(api_version="v1", kind="Pod")
    body = {"gracePeriodSeconds": grace_seconds}
    pods.delete(name="consumer-1", namespace=kube.namespace, body=body)
    eventually(
        lambda: len(run.telemetry(PartitionsAssigned)) > reported, "the assignment of the new pod"
    )

    assert [seen.source for seen in run.telemetry(PartitionsAssigned)[reported:]] == ["consumer-1"]
    assert owned(run) == before


def test_the_highest_ordinals_leave(
    run: ConsumerGroupRun, kube: Kube, kafka_admin: KafkaAdmin
) -> None:
    """A scale-down from four to two stops consumer-2 and consumer-3, whoever started last."""
    settings = ConsumerSettings(workload="StatefulSet")
    start(kube, run, settings, 4)
    run.await_members(kafka_admin, 4)

    start(kube, run, settings, 2)
    run.await_members(kafka_admin, 2)

    asked = {seen.source for seen in run.telemetry(SigtermReceived)}
    assert asked == {"consumer-2", "consumer-3"}
    assert {name for name, held in owned(run).items() if held} >= {"consumer-0", "consumer-1"}
