"""The fence stops what runs, in order, and freezes the run's offsets, logs and states."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import (
    HPA,
    SCALED_OBJECT,
    World,
    change_scenario,
    execute,
    start,
)

from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.keda.loop.zero_and_minimum import READY
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.core.telemetry.records_of_programs import ActionEnded
from lagbench.errors import NotReady
from lagbench.results import stopped_run
from lagbench.results.cell_run import CellRun
from lagbench_airflow.operators import fence_run
from lagbench_airflow.operators.fence_run import FenceRunOperator


@pytest.fixture(autouse=True)
def offsets(world: World) -> None:
    """Let the group have committed partition 0 only."""
    world.offsets = {0: PartitionOffsets(5, 5), 1: PartitionOffsets(3, None)}


def fence(world: World) -> list[str]:
    """Fence the run; return what was deleted."""
    execute(FenceRunOperator, world)
    return [call for call in world.kube.calls if call.startswith("delete")]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_fence_stops_in_order(world: World, kind: str) -> None:
    """Consumers stop before the recorder, so that their last seconds are recorded.

    The recorder was told the kind of their workload. A retry writes the fence again.
    """
    change_scenario(world, consumer={"workload": kind})
    start(world)
    assert world.kube.objects[kind, "consumer"]["spec"]["replicas"] == 2
    assert document_of(world.kube.objects["Deployment", "recorder"])["workload"] == kind

    assert fence(world) == [f"delete {kind}/consumer", "delete Deployment/recorder"]
    assert not world.kube.list("Pod")
    world.folder.fence.unlink()
    fence(world)
    assert world.folder.fence.exists()


def test_the_fence_leaves_a_policy_of_somebody_else(world: World) -> None:
    """An HPA on another Deployment may have the name that all policies of runs have."""
    start(world)
    theirs = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    world.kube.apply(HPA | {"metadata": {"name": "consumer"}, "spec": theirs})
    fence(world)

    assert world.kube.objects["HorizontalPodAutoscaler", "consumer"]["spec"] == theirs


def test_the_fence_freezes_offsets_behind_open_transactions(world: World) -> None:
    """A partition without a commit is null in fence.json, not zero.

    What a killed pod has left open hides the ledger behind it: no fence before it has ended.
    """
    start(world)
    world.admin.topics[world.names.events_topic] = {0: 5, 1: 3}
    world.admin.topics[world.names.processed_topic] = {0: 5}
    world.admin.open_transactions = [{0: 2}]
    fence(world)

    assert world.admin.open_transactions == []
    frozen = world.folder.read_json(world.folder.fence)
    assert (frozen["events"], frozen["processed"]) == ({"0": 5, "1": 3}, {"0": 5})
    assert frozen["committed"] == {"0": 5, "1": None}


def test_a_transaction_that_stays_open_fails_the_fence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the partitions that could not be read to their end, and writes no fence."""
    monkeypatch.setattr(stopped_run, "OPEN_TRANSACTIONS_SECONDS", -1.0)
    start(world)
    world.admin.topics[world.names.processed_topic] = {0: 5, 1: 7}
    world.admin.open_transactions = [{1: 6}]

    with pytest.raises(NotReady, match=r"partitions \[1\] of .*processed"):
        fence(world)
    assert not world.folder.fence.exists()


def test_the_log_of_each_container_is_kept(world: World) -> None:
    """A sidecar gives its pod a second log; a log that is gone already is left out."""
    start(world)
    world.kube.objects["Pod", "consumer-1"]["spec"]["containers"].append({"name": "sidecar"})
    del world.kube.logs["consumer-0"]
    world.kube.logs |= {"consumer-1.consumer": "work", "consumer-1.sidecar": "proxy"}
    fence(world)

    logs = {path.name: path.read_text() for path in world.folder.logs.iterdir()}
    assert set(logs) == {"consumer-1.consumer.log", "consumer-1.sidecar.log", "recorder-0.log"}
    assert (logs["consumer-1.consumer.log"], logs["consumer-1.sidecar.log"]) == ("work", "proxy")


def test_the_last_word_of_the_autoscaler_is_kept(world: World) -> None:
    """The fence writes the policy's and the HPA's status before it deletes them."""
    start(world)
    labels = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply(SCALED_OBJECT | {"metadata": {"name": "consumer", "labels": labels}})
    fence(world)

    kept = world.folder.read_json(world.folder.autoscaler)
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
    for _ in range(2):
        swapped = {0: opened.policy, 1: opened.policy}
        fence_run.keep_differences(replace(opened, swapped=swapped), "kafka:9092")

    assert [world.folder.read_text(f"policy-{n}.diff") for n in (0, 1)] == ["diff 0", "diff 1"]
    assert world.folder.read_text("policy.diff").splitlines() == [
        "+first",
        "# swapped by actions.0",
        "diff 0",
        "# swapped by actions.1",
        "diff 1",
    ]
