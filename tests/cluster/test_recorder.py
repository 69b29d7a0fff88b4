"""The recorder on a real cluster: the chain from load step to first record is whole."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
from lagbench.adapters.kube.kube import Kube
from lagbench.core.clocks import API_SERVER, ClockSet, clock_set, on_recorders_clock
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import (
    RunTarget,
    companion_for_run,
    consumer_for_run,
    recorder_for_run,
)
from lagbench.core.measures.evidence.lag_readings import lag_series
from lagbench.core.measures.evidence.pod_timeline import pod_timelines
from lagbench.core.measures.evidence.producer_report import LoadWindow
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.reaction import Reaction, reaction
from lagbench.core.measures.reaction_stamps import ReactionInput
from lagbench.core.measures.replica_changes import replica_changes
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import FirstRecordDone, LoadStep, Record
from lagbench.core.telemetry.records_of_recorder import (
    HpaSample,
    KubeEvent,
    LagSample,
    PodSeen,
    ReadGap,
    ReplicasChanged,
)
from lagbench.embedded.broker import Broker
from tests.cluster.lagging_group import scaled_object
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun, consumer_group_run

NAMESPACE = "lagbench-recorder"
PARTITIONS, THRESHOLD, REPLICAS, EVENTS = 4, 100, 3, 2000
HPA_SYNC_SECONDS = 15
ENDED, BYSTANDER = "consumer-ended", "consumer-of-others"
SLOW = ConsumerSettings(process_ms=100, concurrency=1)


@pytest.fixture
def run(rig_broker: Broker, tmp_path: Path) -> Iterator[ConsumerGroupRun]:
    """Provide a run's topics where pods reach them."""
    with consumer_group_run(rig_broker.bootstrap_servers, tmp_path, partitions=PARTITIONS) as found:
        yield found


@pytest.fixture
def kube(rig: Rig) -> Iterator[Kube]:
    """Provide a client of a namespace that goes with the test."""
    connected = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)
    namespace = base_manifest("namespace", "Namespace")
    namespace["metadata"]["name"] = NAMESPACE
    connected.apply(namespace)
    yield connected
    connected.delete("Namespace", NAMESPACE)
    connected.close()


@pytest.fixture
def target(kube: Kube, run: ConsumerGroupRun, program_image: str) -> RunTarget:
    """Provide where the run's pods are made, with the recorder and one consumer in it."""
    cluster = ClusterSettings(namespace=NAMESPACE, image=program_image)
    target = RunTarget(run.names, run.bootstrap_servers, cluster)
    for companion in base_objects("recorder"):
        kube.apply(companion_for_run(companion, target))
    recorder = recorder_for_run(base_manifest("recorder", "Deployment"), target)
    consumer = base_manifest("consumer", "Deployment")
    for workload in (recorder, consumer_for_run(consumer, target, SLOW, replicas=1)):
        containers = workload["spec"]["template"]["spec"]["containers"]
        containers[0]["imagePullPolicy"] = "Never"  # a rig has no registry
        kube.apply(workload)
    return target


def others(target: RunTarget) -> list[dict[str, Any]]:
    """Return a consumer that its node ends after 3 s, and a pod of somebody else like it.

    The kubelet ends it as it evicts: SIGTERM, phase Failed, and its object stays.
    """
    consumer = consumer_for_run(base_manifest("consumer", "Deployment"), target, SLOW, replicas=1)
    template = copy.deepcopy(consumer["spec"]["template"])
    template["spec"] |= {"activeDeadlineSeconds": 3, "terminationGracePeriodSeconds": 1}
    [container] = template["spec"]["containers"]
    container |= {"command": ["python", "-c", "import time; time.sleep(600)"], "args": []}
    container["imagePullPolicy"] = "Never"
    for probe in ("readinessProbe", "livenessProbe"):
        del container[probe]
    labels = template["metadata"]["labels"]
    foreign = {name: value for name, value in labels.items() if name != RUN_ID_LABEL}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": of_pod},
            "spec": template["spec"],
        }
        for name, of_pod in ((ENDED, labels), (BYSTANDER, foreign))
    ]


def policy(names: RunNames, servers: str) -> dict[str, Any]:
    """Return a ScaledObject that goes to three replicas in one step."""
    at_once = {"policies": [{"type": "Pods", "value": 100, "periodSeconds": 15}]}
    advanced = {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": at_once}}}
    metadata = {
        "bootstrapServers": servers,
        "topic": names.events_topic,
        "consumerGroup": names.group,
        "lagThreshold": str(THRESHOLD),
    }
    trigger = {"type": "kafka", "metadata": metadata}
    return scaled_object(
        NAMESPACE, "consumer", trigger, maxReplicaCount=REPLICAS, advanced=advanced
    )


def test_the_reaction_chain_of_a_real_cluster_is_whole(
    kube: Kube, run: ConsumerGroupRun, target: RunTarget
) -> None:
    """Every link has a stamp with its precision, the HPA's event is kept, the clocks bounded.

    A pod that its node ended has an end though its object stays, and other pods are not told of.
    """
    for pod in others(target):
        kube.apply(pod)
    run.offer(PARTITIONS)  # one event each, so that there is a committed offset to lag behind
    await_record(run, LagSample, is_all_committed, "the first consumer at work")
    kube.apply(policy(run.names, run.bootstrap_servers))
    await_record(run, HpaSample, lambda seen: bool(seen.totals), "an HPA that reads the lag")
    step_at = time.time_ns()
    run.offer(EVENTS)
    rise = await_record(run, ReplicasChanged, lambda seen: seen.replicas_after > 1, "a rise")
    await_record(run, FirstRecordDone, lambda seen: seen.at > rise.at, "a new pod's first record")
    await_record(run, KubeEvent, lambda seen: seen.reason == "SuccessfulRescale", "the event")
    kube.delete("ScaledObject", "consumer")
    eventually(lambda: not kube.list("HorizontalPodAutoscaler"), "no HPA")
    kube.scale("consumer", 1)
    scaled_at = time.time_ns()
    fall = await_record(run, ReplicasChanged, lambda seen: seen.replicas_after == 1, "the fall")
    gone = await_record(run, PodSeen, lambda seen: seen.gone_at is not None, "a pod's end")

    over = await_record(run, PodSeen, lambda seen: seen.phase == "Failed", "the pod's end")

    records: list[Any] = run.telemetry(Record)
    clocks = clock_set(records, "kubernetes")
    chain = chain_of(records, clocks, step_at)
    assert chain.is_complete, chain.reason
    assert chain.parts_sum_to_total
    precisions = {link.name: link.precision_seconds for link in chain.links}
    # No worse than the recorder's own readings, of which the machine may hold one up.
    between = max(longest_step(records, kind) for kind in (LagSample, HpaSample))
    assert all(found is not None and found < between + 1 for found in precisions.values()), (
        precisions
    )
    waited_seconds = next(link.part_seconds for link in chain.links if link.name == "t2")
    assert (waited_seconds or 0) < 2 * HPA_SYNC_SECONDS + between
    assert rise.manager == "kube-controller-manager"
    assert fall.manager not in ("", "kube-controller-manager")
    assert (fall.at - scaled_at) / NANOSECONDS < 5 + between
    timeline = pod_timelines(records, clocks)[gone.pod]
    assert timeline.ready_at is not None
    assert gone.gone_at is not None
    assert timeline.created_at < timeline.ready_at < gone.gone_at
    assert (over.pod, over.gone_at) == (ENDED, None)
    assert kube.get("Pod", ENDED) is not None
    ended_at = pod_timelines(records, clocks)[ENDED].gone_at
    assert over.finished_at is not None
    assert ended_at is not None
    assert abs(ended_at - over.finished_at) / NANOSECONDS < 1.5
    assert BYSTANDER not in {record.pod for record in records if isinstance(record, PodSeen)}
    gaps = [record.reason for record in records if isinstance(record, ReadGap)]
    assert not any("orbidden" in reason for reason in gaps), gaps
    assert len(clocks.by_name) == 2  # the API server's, and the one node's
    for name, clock in clocks.by_name.items():
        assert clock.bound.low_ns <= 0 <= clock.bound.high_ns, name
        assert clock.bound.width_ns < NANOSECONDS // 2
        assert clock.is_steady
    assert API_SERVER in clocks.by_name


def longest_step(records: list[Any], kind: type[Any]) -> float:
    """Return the longest time in seconds between two readings of a kind."""
    instants = [record.at for record in records if isinstance(record, kind)]
    return max((b - a for a, b in pairwise(instants)), default=0) / NANOSECONDS


def is_all_committed(sample: LagSample) -> bool:
    """Return whether every partition has a committed offset."""
    return all(committed is not None for _, _, committed in sample.partitions)


def chain_of(records: list[TelemetryRecord], clocks: ClockSet, step_at: int) -> Reaction:
    """Return the chain that the records tell, from a load step at ``step_at``."""
    # The test offers the load itself; its clock is the node's.
    producer = next(iter(clocks.name_of_pod))
    step = LoadStep(
        at=step_at, source=producer, step="spike_start", rate_before=0, rate_after=EVENTS
    )
    records = on_recorders_clock([*records, step], clocks)
    rows = [
        (sample.at, *row)
        for sample in records
        if isinstance(sample, LagSample)
        for row in sample.partitions
    ]
    until_at = max(record.at for record in records)
    at, partition, end, committed = zip(*rows, strict=True)
    return reaction(
        ReactionInput(
            records=records,
            lag=lag_series(at, partition, end, committed),
            timelines=pod_timelines(records, clocks),
            changes=replica_changes(
                records, from_at=step_at, until_at=until_at, last_spike_ended_at=None
            ),
            load=LoadWindow(
                stream_started_at=step_at,
                first_spike_started_at=step_at,
                last_spike_ended_at=None,
                spikes=1,
                stream_ended_at=None,
                base_rate_per_second=None,
                spike_rate_per_second=None,
            ),
            limits=PolicyLimits(1, REPLICAS, THRESHOLD, f"lagThreshold {THRESHOLD}"),
            replicas_at_step=1,
            until_at=until_at,
            clocks=clocks,
            step_at=step_at,
        )
    )


def await_record(run: ConsumerGroupRun, kind: Any, holds: Any, what: str) -> Any:
    """Wait for the first record of a kind for which ``holds`` is true."""

    def found() -> Any:
        try:
            return next((seen for seen in run.telemetry(kind) if holds(seen)), None)
        except KafkaException:  # a broker that has just made a topic may not lead yet
            return None

    return eventually(found, what)
