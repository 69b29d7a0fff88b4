"""The fence stops what runs, in order, and freezes the run's offsets, logs and states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, World
from tests.unit.plugins.started_workloads import as_stateful_set, start

from lagbench.core.keda.loop.kafka_lag import PartitionOffsets
from lagbench.core.keda.loop.scale_loop import READY
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.core.telemetry.records import ActionEnded
from lagbench.errors import NotReady
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators import fence_run
from lagbench_airflow.operators.fence_run import FenceRunOperator


@pytest.fixture
def fence(world: World) -> FenceRunOperator:
    """Return the operator; the group has committed partition 0 only."""
    world.offsets = {0: PartitionOffsets(5, 5), 1: PartitionOffsets(3, None)}
    return FenceRunOperator(task_id="fence_run", run_folder=str(world.folder.path))


def test_consumers_may_be_a_stateful_set(world: World, fence: FenceRunOperator) -> None:
    """It starts at the floor, the recorder is told of it, and the fence stops it."""
    as_stateful_set(world)
    start(world)

    stateful_set = world.kube.objects["StatefulSet", "consumer"]
    recorder = world.kube.objects["Deployment", "recorder"]
    assert stateful_set["spec"]["replicas"] == 2
    assert document_of(recorder)["workload"] == "StatefulSet"
    fence.execute(world.context)
    calls = [call for call in world.kube.calls if call.startswith("delete")]
    assert calls == ["delete StatefulSet/consumer", "delete Deployment/recorder"]


def test_the_fence_stops_in_order(world: World, fence: FenceRunOperator) -> None:
    """Consumers stop before the recorder, so that their last seconds are recorded."""
    start(world)

    fence.execute(world.context)

    calls = [call for call in world.kube.calls if call.startswith("delete")]
    assert calls == ["delete Deployment/consumer", "delete Deployment/recorder"]
    assert not world.kube.list("Pod")


def test_the_fence_leaves_a_policy_of_somebody_else(world: World, fence: FenceRunOperator) -> None:
    """An HPA on another Deployment may have the name that all policies of runs have."""
    start(world)
    theirs = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    world.kube.apply(HPA | {"metadata": {"name": "consumer"}, "spec": theirs})

    fence.execute(world.context)

    assert world.kube.objects["HorizontalPodAutoscaler", "consumer"]["spec"] == theirs


def test_the_fence_freezes_offsets(world: World, fence: FenceRunOperator) -> None:
    """A partition without a commit is null in fence.json, not zero."""
    start(world)
    world.admin.topics[world.names.events_topic] = {0: 5, 1: 3}

    fence.execute(world.context)

    frozen = world.folder.read_json(world.folder.fence)
    assert frozen["events"] == {"0": 5, "1": 3}
    assert frozen["committed"] == {"0": 5, "1": None}


def test_the_fence_waits_for_open_transactions(world: World, fence: FenceRunOperator) -> None:
    """What a killed pod has left open hides the ledger behind it: no fence before it has ended."""
    start(world)
    world.admin.topics[world.names.processed_topic] = {0: 5}
    world.admin.open_transactions = [{0: 2}]

    fence.execute(world.context)

    assert world.admin.open_transactions == []
    assert world.folder.read_json(world.folder.fence)["processed"] == {"0": 5}


def test_a_transaction_that_stays_open_fails_the_fence(
    world: World, fence: FenceRunOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the partitions that could not be read to their end, and writes no fence."""
    monkeypatch.setattr(fence_run, "OPEN_TRANSACTIONS_SECONDS", -1.0)
    start(world)
    world.admin.topics[world.names.processed_topic] = {0: 5, 1: 7}
    world.admin.open_transactions = [{1: 6}]

    with pytest.raises(NotReady, match=r"partitions \[1\] of .*processed"):
        fence.execute(world.context)

    assert not world.folder.fence.exists()


def test_the_pods_logs_are_kept(world: World, fence: FenceRunOperator) -> None:
    """Logs are collected before the pods go; one that is gone already is left out."""
    start(world)
    del world.kube.logs["consumer-1"]

    fence.execute(world.context)

    kept = sorted(path.name for path in world.folder.logs.iterdir())
    assert kept == ["consumer-0.log", "recorder-0.log"]


def test_the_log_of_each_container_is_kept(world: World, fence: FenceRunOperator) -> None:
    """A sidecar gives its pod a second log; one container alone has the pod's name."""
    start(world)
    pod = world.kube.objects["Pod", "consumer-1"]
    pod["spec"]["containers"].append({"name": "sidecar"})
    world.kube.logs |= {"consumer-1.consumer": "work", "consumer-1.sidecar": "proxy"}

    fence.execute(world.context)

    logs = {path.name: path.read_text() for path in world.folder.logs.iterdir()}
    assert logs["consumer-1.consumer.log"] == "work"
    assert logs["consumer-1.sidecar.log"] == "proxy"
    assert logs.keys() >= {"consumer-0.log", "recorder-0.log"}
    assert "consumer-1.log" not in logs


def test_a_retry_of_the_fence_is_safe(world: World, fence: FenceRunOperator) -> None:
    """With everything stopped already the fence is written again."""
    start(world)
    fence.execute(world.context)
    world.folder.fence.unlink()

    fence.execute(world.context)

    assert world.folder.fence.exists()


def test_the_last_word_of_the_autoscaler_is_kept(world: World, fence: FenceRunOperator) -> None:
    """The fence writes the policy's and the HPA's status before it deletes them."""
    start(world)
    labels = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply(SCALED_OBJECT | {"metadata": {"name": "consumer", "labels": labels}})

    fence.execute(world.context)

    kept = world.folder.read_json(world.folder.path / "autoscaler.json")
    conditions = kept["ScaledObject"]["consumer"]["status"]["conditions"]
    assert conditions == [{"type": "Ready", "status": "True", "message": READY.message}]
    assert not world.kube.list("ScaledObject")


def test_each_swap_keeps_its_difference(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two swaps to one policy leave two files, and policy.diff has all; a retry repeats nothing."""
    ends = [
        ActionEnded(at=at, source="a", number=at, action="swap_policy", detail=f"diff {at}")
        for at in (1, 0)
    ]
    monkeypatch.setattr(fence_run, "read_records", lambda *_: iter(ends))
    world.folder.write_text("policy.diff", "+first")
    opened = CellRun.open(str(world.folder.path))
    cell = replace(opened, swapped={0: opened.policy, 1: opened.policy})

    for _ in range(2):
        fence_run.keep_differences(cell, "kafka:9092")

    kept = [world.folder.read_text(f"policy-{number}.diff") for number in (0, 1)]
    assert kept == ["diff 0", "diff 1"]
    assert world.folder.read_text("policy.diff").splitlines() == [
        "+first",
        "# swapped by actions.0",
        "diff 0",
        "# swapped by actions.1",
        "diff 1",
    ]
