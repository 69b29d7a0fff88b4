"""The recorder beside a real broker and a real localkube."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.eventually import eventually
from tests.fakes.kubeconfig import cluster_target
from tests.integration.consumer_group import ConsumerGroupRun
from tests.integration.localkube_process import LocalkubeProcess, running_localkube

from lagbench.adapters.kube.kube import Kube
from lagbench.core.measures.evidence.group_strangers import group_strangers
from lagbench.core.measures.evidence.pod_timeline import by_life, pod_timelines
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import (
    GroupMembers,
    GroupSample,
    LagSample,
    PodSeen,
    PodsListed,
    ReadGap,
    ReplicaSample,
    ReplicasChanged,
    UsageSample,
)
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow
PARTITIONS = 3
SLEEPER = {
    "terminationGracePeriodSeconds": 5,
    "containers": [
        {
            "name": "consumer",
            "image": "any",
            "command": [sys.executable, "-c", "import time; time.sleep(600)"],
        }
    ],
}
BYSTANDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bystander", "namespace": "lagbench", "labels": {"app": "consumer"}},
    "spec": SLEEPER,
}


def sleeper(run_id: str) -> dict[str, Any]:
    """Return a Deployment of one pod for a run; each run's takes the place of the one before."""
    labels = {"app": "consumer", RUN_ID_LABEL: run_id}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "consumer", "namespace": "lagbench"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "consumer"}},
            "template": {"metadata": {"labels": labels}, "spec": SLEEPER},
        },
    }


@contextmanager
def recorder(
    run: ConsumerGroupRun, kubeconfig: Path, pids: dict[str, int], *flags: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a recorder for the time of the block."""
    environment = os.environ | {
        "POD_NAME": "recorder-1",
        "KAFKA_BOOTSTRAP_SERVERS": run.bootstrap_servers,
        "KUBECONFIG": str(kubeconfig),
        "PORT_METRICS": "0",
        "LAGBENCH_SETTINGS": json.dumps({"observed_pids": pids}),
    }
    command = [sys.executable, "-m", "lagbench.programs.recorder", "--interval-seconds=0.5"]
    with (run.log_dir / "recorder.log").open("ab") as log:
        arguments = ["--run-id", run.names.run_id, *flags]
        process = start_tied([*command, *arguments], log=log, env=environment)
    try:
        yield process
    finally:
        end_process(process.pid, grace_seconds=10)
        process.wait(timeout=60)


def await_pods(kube: Kube, run_id: str) -> list[str]:
    """Wait until a run has pods; returns their names."""

    def names() -> list[str]:
        found = kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={run_id}")
        return [pod["metadata"]["name"] for pod in found]

    return eventually(names, f"a pod of run {run_id}")


def is_read(sample: LagSample) -> bool:
    """Return whether 100 events of every partition are committed."""
    return all(committed == 100 for _, _, committed in sample.partitions)


def await_record(run: ConsumerGroupRun, kind: Any, holds: Any, what: str) -> Any:
    """Wait for the first record of a kind for which ``holds`` is true."""
    return eventually(
        lambda: next((seen for seen in run.telemetry(kind) if holds(seen)), None), what
    )


@pytest.mark.smoke
def test_it_records_kafka_kubernetes_and_the_benchs_own_cost(
    run: ConsumerGroupRun, localkube: LocalkubeProcess, kube: Kube
) -> None:
    """Lag, group, replicas, pods and usage are in the telemetry, exact where localkube is.

    Pods of somebody else and of the run before are not, whatever they have in common.
    """
    run.offer(300)
    kube.apply(BYSTANDER)
    kube.apply(sleeper("earlier"))
    [earlier] = await_pods(kube, "earlier")
    kube.apply(sleeper(run.names.run_id))
    [own] = await_pods(kube, run.names.run_id)
    with recorder(run, localkube.kubeconfig, {"localkube": localkube.process.pid}) as process:
        unread = await_record(run, LagSample, bool, "a reading of the lag")
        run.start("pod-a", "--process-ms=0")
        read = await_record(run, LagSample, is_read, "committed offsets")
        await_record(run, GroupSample, lambda seen: seen.members == 1, "a member")
        await_record(run, ReplicaSample, lambda seen: seen.ready == 1, "a ready replica")
        kube.scale("consumer", 0)
        gone = await_record(run, PodSeen, lambda seen: seen.gone_at, "the pod's end")
        process.terminate()
        assert process.wait(timeout=120) == 0
    eventually(  # the earlier run's pod goes at its own time
        lambda: {pod["metadata"]["name"] for pod in kube.list("Pod")} == {"bystander"},
        "nothing left but the bystander",
    )

    assert [tuple(row) for row in unread.partitions] == [(p, 100, None) for p in range(PARTITIONS)]
    assert [tuple(row) for row in read.partitions] == [(p, 100, 100) for p in range(PARTITIONS)]
    assert gone.precision_ns == 1
    assert gone.created_at < gone.started_at < gone.deleted_at <= gone.gone_at
    assert gone.exit_code is not None
    assert {seen.pod for seen in run.telemetry(PodSeen)} == {own}
    assert [listed.pods for listed in run.telemetry(PodsListed)] == [[own]]
    assert earlier != own
    usage = {seen.component for seen in run.telemetry(UsageSample)}
    assert usage == {"recorder", "localkube"}


def test_a_pod_that_went_away_without_a_recorder_has_an_end(
    run: ConsumerGroupRun, localkube: LocalkubeProcess, kube: Kube
) -> None:
    """The next recorder's first list is without it."""
    kube.apply(sleeper(run.names.run_id))
    with recorder(run, localkube.kubeconfig, {}):
        seen = await_record(run, PodSeen, lambda seen: seen.started_at, "a running pod")
    kube.scale("consumer", 0)
    kube.wait_gone("Pod", label_selector=RUN_ID_LABEL, timeout_seconds=180)
    away_at = time.time_ns()
    with recorder(run, localkube.kubeconfig, {}):
        await_record(run, PodsListed, lambda listed: listed.at > away_at, "a second list")

    records: list[Any] = run.telemetry(Record)
    timeline = pod_timelines(records)[seen.pod]
    assert {record.gone_at for record in records if isinstance(record, PodSeen)} == {None}
    assert timeline.gone_at is not None
    assert timeline.gone_at > away_at


def test_a_stateful_set_is_recorded_with_the_lives_of_its_pods(
    run: ConsumerGroupRun, localkube: LocalkubeProcess, kube: Kube
) -> None:
    """Replicas are read and watched; a pod that gets the name of a deleted one is another life."""
    manifest = {**sleeper(run.names.run_id), "kind": "StatefulSet"}
    kube.apply(manifest)
    with recorder(run, localkube.kubeconfig, {}, "--workload=StatefulSet"):
        first = await_record(run, PodSeen, lambda seen: seen.started_at, "a running pod")
        await_record(run, ReplicaSample, lambda seen: seen.ready == 1, "a ready replica")
        kube.delete("Pod", first.pod)
        await_record(
            run,
            PodSeen,
            lambda seen: seen.started_at and seen.created_at > first.created_at,
            "the pod that follows",
        )
        kube.apply({**manifest, "spec": {**manifest["spec"], "replicas": 0}})
        changed = await_record(run, ReplicasChanged, bool, "the change of replicas")

    timelines = pod_timelines(by_life(run.telemetry(Record)))
    assert list(timelines) == ["consumer-0", "consumer-0 (life 2)"]
    before, after = timelines.values()
    assert before.created_at == first.created_at
    assert before.gone_at is not None
    assert before.ready_at is not None
    assert after.ready_at is not None
    assert before.ready_at < after.created_at < after.ready_at
    assert (changed.replicas_before, changed.replicas_after) == (1, 0)


def test_what_cannot_be_read_is_a_gap_while_the_rest_goes_on(
    run: ConsumerGroupRun, tmp_path: Path
) -> None:
    """Without a Kubernetes API and then without a Deployment, Kafka is still sampled."""
    run.offer(300)
    with running_localkube(tmp_path / "localkube") as localkube:
        kubeconfig = tmp_path / "kept"
        kubeconfig.write_text(localkube.kubeconfig.read_text())
    with recorder(run, kubeconfig, {"broker": 2**22}):
        for what in ("replicas", "hpa", "pods", "usage"):
            await_record(run, ReadGap, lambda seen, what=what: seen.what == what, f"gap: {what}")
        since = time.time_ns()
        await_record(run, LagSample, lambda seen: seen.at > since, "lag meanwhile")

    assert run.telemetry(ReplicaSample) == []
    # Each half second has its lag, or a gap that says why not: that the machine was busy.
    lags = [seen.at for seen in run.telemetry(LagSample)]
    gaps = [seen for seen in run.telemetry(ReadGap) if seen.what == "lag"]
    turns = sorted([*lags, *(gap.at for gap in gaps)])
    assert len(turns) == pytest.approx((turns[-1] - turns[0]) / 0.5e9 + 1, abs=2)


@contextmanager
def stranger(run: ConsumerGroupRun, client_id: str) -> Iterator[Consumer]:
    """Let a consumer that is no pod of the run join its group, and leave it after the block."""
    consumer = Consumer(
        {
            "bootstrap.servers": run.bootstrap_servers,
            "client.id": client_id,
            "group.id": run.names.group,
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    consumer.subscribe([run.names.events_topic])
    try:
        yield consumer
    finally:
        consumer.close()


def test_a_member_that_is_no_pod_is_recorded_with_its_partitions(
    run: ConsumerGroupRun, tmp_path: Path
) -> None:
    """A second consumer shares the group for a while: client id, host and partitions are told."""
    kubeconfig = Path(str(cluster_target(tmp_path, "http://127.0.0.1:9").kubeconfig))
    run.offer(300)
    run.start("pod-a", "--process-ms=0", "--balancer=cooperative-sticky")

    def held(record: GroupMembers) -> dict[str, list[int]]:
        return {member.client_id: member.partitions for member in record.members}

    def is_alone(record: GroupMembers) -> bool:
        return held(record) == {"pod-a": list(range(PARTITIONS))}

    def is_shared(record: GroupMembers) -> bool:
        return bool(held(record).get("canary")) and bool(held(record).get("pod-a"))

    with recorder(run, kubeconfig, {}):
        alone = await_record(run, GroupMembers, is_alone, "pod-a alone in the group")
        with stranger(run, "canary") as consumer:

            def polled() -> GroupMembers | None:
                consumer.poll(0.2)
                found = run.telemetry(GroupMembers)
                return next((record for record in found if is_shared(record)), None)

            shared = eventually(polled, "a shared group")
        again = await_record(
            run,
            GroupMembers,
            lambda record: record.at > shared.at and is_alone(record),
            "pod-a alone again",
        )

    assert sorted([*held(shared)["canary"], *held(shared)["pod-a"]]) == list(range(PARTITIONS))
    records: list[Any] = run.telemetry(Record)
    [found] = group_strangers(records)
    assert (found.client_id, found.members) == ("canary", 1)
    assert set(held(shared)["canary"]) <= set(found.partitions)
    assert "127.0.0.1" in str(found.host)
    assert alone.at < found.first_seen_at <= found.last_seen_at < again.at
