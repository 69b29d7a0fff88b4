"""The player of actions beside a real broker and a real localkube: it undoes, or others do."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import pytest
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun
from tests.integration.localkube_process import LocalkubeProcess
from tests.integration.pod_manifests import FOREVER, deployment

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.kube.workloads import HAD_REPLICAS, put_policy
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.run_names import (
    AUTOSCALER_DEPLOYMENT,
    AUTOSCALER_NAMESPACE,
    POLICY_OBJECT,
    RUN_ID_ANNOTATION,
    RUN_ID_LABEL,
    SWAP_ANNOTATION,
)
from lagbench.core.telemetry.records_of_programs import ActionEnded, ActionStarted, StreamStarted
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow
PARTITIONS = 1


@pytest.fixture
def kube(localkube: LocalkubeProcess, run: ConsumerGroupRun) -> Iterator[Kube]:
    """Provide a client of a bench with two consumers of the run and an autoscaler."""
    client = Kube.from_kubeconfig(localkube.kubeconfig)
    for name in (client.namespace, AUTOSCALER_NAMESPACE):
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    consumers = deployment("consumer", 2, FOREVER)
    labels = consumers["spec"]["template"]["metadata"]["labels"]
    labels[RUN_ID_LABEL] = run.names.run_id
    client.apply(consumers)
    client.elsewhere(AUTOSCALER_NAMESPACE).apply(deployment(AUTOSCALER_DEPLOYMENT, 1, FOREVER))
    eventually(lambda: len(processes(client, run)) == 2, "two consumers")
    yield client
    client.close()


def processes(kube: Kube, run: ConsumerGroupRun) -> dict[str, psutil.Process]:
    """Return the process of each consumer pod that runs."""
    found = {}
    for pod in kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={run.names.run_id}"):
        for status in (pod.get("status") or {}).get("containerStatuses") or []:
            if "running" in status["state"]:
                pid = int(status["containerID"].removeprefix("process://"))
                with contextlib.suppress(psutil.NoSuchProcess):  # it ended a moment ago
                    found[pod["metadata"]["name"]] = psutil.Process(pid)
    return found


def restarted(kube: Kube, run: ConsumerGroupRun) -> int:
    """Return how many containers of Ready consumer pods run for another time."""
    return sum(
        status["restartCount"]
        for pod in kube.list("Pod", label_selector=f"{RUN_ID_LABEL}={run.names.run_id}")
        for condition in (pod.get("status") or {}).get("conditions") or []
        if (condition["type"], condition["status"]) == ("Ready", "True")
        for status in pod["status"]["containerStatuses"]
    )


@contextmanager
def player(
    run: ConsumerGroupRun,
    localkube: LocalkubeProcess,
    *actions: dict[str, Any],
    policies: dict[int, dict[str, Any]] | None = None,
    workload: str = "Deployment",
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a player for the time of the block; the stream is at its second 0."""
    environment = os.environ | {
        "POD_NAME": "actions-1",
        "KAFKA_BOOTSTRAP_SERVERS": run.bootstrap_servers,
        "KUBECONFIG": str(localkube.kubeconfig),
        "PORT_METRICS": "0",
        "LAGBENCH_SETTINGS": json.dumps({"actions": actions, "policies": policies or {}}),
    }
    command = [sys.executable, "-m", "lagbench.programs.actions", "--run-id", run.names.run_id]
    command += ["--workload", workload]
    with (run.log_dir / "actions.log").open("ab") as log:
        process = start_tied(command, log=log, env=environment)
    set_stream(run, second=0)
    try:
        yield process
    finally:
        end_process(process.pid, grace_seconds=25)
        process.wait(timeout=60)


def set_stream(run: ConsumerGroupRun, *, second: int) -> None:
    """Say that the stream is at this second now: an action begins when a test wants it to."""
    now = time.time_ns()
    telemetry = TelemetryLog(run.bootstrap_servers, run.names.telemetry_topic)
    telemetry.send(
        StreamStarted(
            at=now,
            source="producer-1",
            stream_started_at=now - second * 1_000_000_000,
            seed=1,
            profile="steady",
            planned_total=1,
            planned_seconds=1.0,
            partitions=1,
        )
    )
    assert telemetry.flush() == 0


def await_ends(run: ConsumerGroupRun, count: int) -> None:
    """Wait until so many actions have ended."""
    eventually(lambda: len(ends(run)) == count, f"{count} ended actions")


def ends(run: ConsumerGroupRun) -> list[ActionEnded]:
    """Return the ends that were stamped so far."""
    return sorted(run.telemetry(ActionEnded), key=lambda record: record.number)


def test_actions_are_played_once_in_a_real_run(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess
) -> None:
    """Kill, pause and restart: each has its effect, two stamps, and the player ends by itself."""
    before = processes(kube, run)
    actions = (
        {"kind": "kill_pod", "at_seconds": 0},
        {"kind": "pause_pod", "at_seconds": 1000, "for_seconds": 1, "pods": 2},
        {"kind": "rolling_restart", "at_seconds": 2000},
    )

    with player(run, localkube, *actions) as process:
        await_ends(run, 1)
        eventually(lambda: restarted(kube, run) == 1, "the killed pod's next process")
        set_stream(run, second=1000)
        await_ends(run, 2)
        set_stream(run, second=2000)
        assert process.wait(timeout=300) == 0

    starts = sorted(run.telemetry(ActionStarted), key=lambda record: record.number)
    assert [record.action for record in starts] == [action["kind"] for action in actions]
    assert [record.error for record in ends(run)] == ["", "", ""]
    assert len(starts[0].targets) == 1
    assert set(starts[1].targets) == set(starts[2].targets) == set(before)
    assert ends(run)[1].at - starts[1].at >= 1_000_000_000
    after = processes(kube, run)
    assert set(ends(run)[2].came) == set(after)
    assert not set(after) & set(before)


def test_a_stateful_set_is_restarted_too(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess
) -> None:
    """Its new pods have the names of the earlier ones: the rollout ends when all are new."""
    stateful = deployment("consumer", 2, FOREVER)
    stateful["kind"] = "StatefulSet"
    stateful["spec"]["serviceName"] = "consumer"
    stateful["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] = run.names.run_id
    kube.delete("Deployment", "consumer")
    eventually(lambda: not processes(kube, run), "no consumer")
    kube.apply(stateful)
    eventually(lambda: len(processes(kube, run)) == 2, "two consumers")
    before = processes(kube, run)

    restart = {"kind": "rolling_restart", "at_seconds": 0}
    with player(run, localkube, restart, workload="StatefulSet") as process:
        assert process.wait(timeout=300) == 0

    (end,) = ends(run)
    after = processes(kube, run)
    assert end.error == ""
    assert end.came == sorted(before) == sorted(after) == ["consumer-0", "consumer-1"]
    assert all(after[name].pid != before[name].pid for name in after)


def test_a_restart_gives_an_own_consumer_other_variables(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess
) -> None:
    """The new processes have them, and keep what the run gave."""
    consumers = deployment("consumer", 2, FOREVER)
    consumers["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] = run.names.run_id
    pod = {"name": "LAGBENCH_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    (container,) = consumers["spec"]["template"]["spec"]["containers"]
    container["env"] = [pod, {"name": "MODE", "value": "old"}]
    kube.apply(consumers)

    def modes() -> list[str | None]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return [process.environ().get("MODE") for process in processes(kube, run).values()]
        return []

    eventually(lambda: modes() == ["old", "old"], "two consumers with variables")

    restart = {"kind": "rolling_restart", "at_seconds": 0, "env": {"MODE": "new"}}
    with player(run, localkube, restart) as process:
        assert process.wait(timeout=300) == 0

    (end,) = ends(run)
    assert (end.error, end.detail) == ("", "with other values of MODE")
    after = processes(kube, run)
    assert modes() == ["new", "new"]
    assert {name: one.environ()["LAGBENCH_POD"] for name, one in after.items()} == {
        name: name for name in after
    }


def test_sigterm_undoes_what_lasts(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess
) -> None:
    """The paused pods continue, and the end is stamped as one before its time."""
    pause = {"kind": "pause_pod", "at_seconds": 0, "for_seconds": 600, "pods": 2}
    found = processes(kube, run)

    with player(run, localkube, pause) as process:
        eventually(
            lambda: {p.status() for p in found.values()} == {psutil.STATUS_STOPPED}, "the pause"
        )
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)

    assert all(p.status() != psutil.STATUS_STOPPED for p in found.values())
    (end,) = eventually(lambda: ends(run), "the stamp of its end")
    assert "ended before" in end.error


def test_what_a_killed_player_left_is_brought_back_at_the_end(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess
) -> None:
    """After SIGKILL nothing is stamped; the clean-up of the run finds the note."""
    from lagbench_airflow.bench_life import bring_autoscaler_back

    down = {"kind": "autoscaler_down", "at_seconds": 0, "for_seconds": 600}
    keda = kube.elsewhere(AUTOSCALER_NAMESPACE)

    with player(run, localkube, down) as process:
        eventually(lambda: keda.list("Pod") == [], "no autoscaler")
        process.kill()
        process.wait(timeout=60)
    assert (keda.get("Deployment", AUTOSCALER_DEPLOYMENT) or {})["spec"]["replicas"] == 0

    bring_autoscaler_back(kube, lambda _: None)

    assert len(keda.list("Pod")) == 1
    metadata = (keda.get("Deployment", AUTOSCALER_DEPLOYMENT) or {})["metadata"]
    assert HAD_REPLICAS not in metadata.get("annotations", {})
    assert ends(run) == []


def scaled_object(run: ConsumerGroupRun, most: int, swap: int | None) -> dict[str, Any]:
    """Return a policy of the run on its lag."""
    trigger = {
        "bootstrapServers": run.bootstrap_servers,
        "topic": run.names.events_topic,
        "consumerGroup": run.names.group,
        "lagThreshold": "10",
    }
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": _policy_metadata(run, swap),
        "spec": {
            "scaleTargetRef": {"name": "consumer"},
            "minReplicaCount": 2,
            "maxReplicaCount": most,
            "triggers": [{"type": "kafka", "metadata": trigger}],
        },
    }


def plain_hpa(run: ConsumerGroupRun, most: int, swap: int) -> dict[str, Any]:
    """Return a policy of the run on CPU."""
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": _policy_metadata(run, swap),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "consumer"},
            "minReplicas": 2,
            "maxReplicas": most,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def _policy_metadata(run: ConsumerGroupRun, swap: int | None) -> dict[str, Any]:
    number = {} if swap is None else {SWAP_ANNOTATION: str(swap)}
    return {
        "name": POLICY_OBJECT,
        "namespace": "lagbench",
        "labels": {RUN_ID_LABEL: run.names.run_id},
        "annotations": {RUN_ID_ANNOTATION: run.names.run_id, **number},
    }


def test_policies_are_swapped_in_place(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess
) -> None:
    """Twice in a run: the autoscaler follows each, and each leaves a difference of its own."""
    command = [sys.executable, "-m", "lagbench.programs.autoscaler", "--hpa-sync-seconds=1"]
    environment = os.environ | {"KUBECONFIG": str(localkube.kubeconfig)}
    with (run.log_dir / "autoscaler.log").open("ab") as log:
        autoscaler = start_tied(command, log=log, env=environment)
    first = scaled_object(run, 4, None)
    policy = Policy.read(first, where="test")
    put_policy(kube, first, policy.limits)
    swaps = (
        {"kind": "swap_policy", "at_seconds": 0, "policy": "wider"},
        {"kind": "swap_policy", "at_seconds": 1000, "policy": "on-cpu"},
    )
    policies = {0: scaled_object(run, 6, 0), 1: plain_hpa(run, 5, 1)}

    with player(run, localkube, *swaps, policies=policies) as process:
        await_ends(run, 1)
        set_stream(run, second=1000)
        assert process.wait(timeout=300) == 0
    end_process(autoscaler.pid, grace_seconds=10)

    assert [record.error for record in ends(run)] == ["", ""]
    wider, on_cpu = (record.detail for record in ends(run))
    assert "-  maxReplicaCount: 4\n" in wider
    assert "+  maxReplicaCount: 6\n" in wider
    assert "-kind: ScaledObject\n" in on_cpu
    assert "+kind: HorizontalPodAutoscaler\n" in on_cpu
    assert kube.get("ScaledObject", POLICY_OBJECT) is None
    assert (kube.get("HorizontalPodAutoscaler", POLICY_OBJECT) or {})["spec"]["maxReplicas"] == 5


def test_a_topic_grows_at_its_second_and_stays_so(
    run: ConsumerGroupRun, kube: Kube, localkube: LocalkubeProcess, kafka_admin: KafkaAdmin
) -> None:
    """The second growth is to the number that the topic has by then: it fails, and says so."""
    grow = {"kind": "grow_partitions", "at_seconds": 0.5, "partitions": 4}

    with player(run, localkube, grow, grow | {"at_seconds": 1000}) as process:
        await_ends(run, 1)
        set_stream(run, second=1000)
        assert process.wait(timeout=300) == 0

    topic = run.names.events_topic
    starts = sorted(run.telemetry(ActionStarted), key=lambda record: record.number)
    assert starts[0].targets == [topic]
    assert [record.detail for record in ends(run)] == ["from 1 to 4 partitions", ""]
    assert ends(run)[0].error == ""
    assert "has 4 partition" in ends(run)[1].error
    assert kafka_admin.partition_counts([topic]) == {topic: 4}
