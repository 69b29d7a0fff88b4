"""A run with two consumer groups, through its operators and sensors."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import yaml
from tests.fakes.fake_kafka_admin import FakeKafkaAdmin
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, SCENARIO, World

from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench.adapters.kube.workloads import remove_everything
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.operators.fence_run import FenceRunOperator
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.start_companions import StartRecorderOperator
from lagbench_airflow.sensors.run_sensor import ACTIONS_PLAYED, REPLICAS_SETTLED, RunSensor, Wait


@pytest.fixture
def two(world: World) -> World:
    """Return the world whose run has a second group with another kind of policy."""
    whole = Scenario.model_validate({**SCENARIO, "second_group": {"consumer": {"process_ms": 9}}})
    seen = whole.of_second_group()
    assert seen is not None
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(whole.model_dump(mode="json")))
    second = world.folder.make_second()
    second.write_text(second.scenario, yaml.safe_dump(seen.model_dump(mode="json")))
    second.write_text(second.policy, yaml.safe_dump(HPA))
    second.write_json(second.manifest, {"run_id": second.run_id})
    names = (*world.names.topics, *world.names.second.topics)
    world.admin.create_topics([TopicSpec(name, 2) for name in dict.fromkeys(names)])
    world.offsets = {0: PartitionOffsets(5, 5), 1: PartitionOffsets(3, None)}
    return world


def start(world: World) -> None:
    """Run consumers, recorders and policies."""
    for kind in (RunConsumersOperator, StartRecorderOperator, ApplyScalingPolicyOperator):
        task = kind(task_id=kind.__name__, run_folder=str(world.folder.path))
        task.execute(world.context)


def test_a_group_s_folder_is_a_run_folder_of_its_own_names(two: World) -> None:
    """It is opened like any other; the run's id stays, and the names are the second group's."""
    (first, second) = CellRun.open(str(two.folder.path)).groups

    assert first.names == RunNames(two.folder.run_id)
    assert second.names == first.names.second
    assert (first.scenario.consumer.process_ms, second.scenario.consumer.process_ms) == (2.0, 9)
    assert CellRun.open(str(second.folder.path)).names == second.names


def test_each_group_gets_its_workload_recorder_and_policy(two: World) -> None:
    """The first group's objects are those of a run with one group."""
    start(two)

    made = {key for key in two.kube.objects if key[0] != "Pod"}
    assert made >= {
        ("Deployment", "consumer"),
        ("Deployment", "recorder"),
        ("ScaledObject", "consumer"),
        ("Deployment", "second-consumer"),
        ("Deployment", "second-recorder"),
        ("HorizontalPodAutoscaler", "second-consumer"),
    }
    scaled = two.kube.objects["HorizontalPodAutoscaler", "second-consumer"]["spec"]
    assert scaled["scaleTargetRef"]["name"] == "second-consumer"
    applied = yaml.safe_load((two.folder.path / "second_group" / "policy.yaml").read_text())
    assert applied["metadata"]["name"] == "second-consumer"


def test_the_fence_stops_both_groups_before_it_writes(two: World) -> None:
    """Both groups' pods have gone, policies and consumers before the recorders."""
    start(two)
    two.kube.calls.clear()

    FenceRunOperator(task_id="fence_run", run_folder=str(two.folder.path)).execute(two.context)

    assert two.kube.calls == [
        "delete ScaledObject/consumer",
        "delete HorizontalPodAutoscaler/second-consumer",
        "delete Deployment/consumer",
        "delete Deployment/second-consumer",
        "delete Deployment/recorder",
        "delete Deployment/second-recorder",
    ]
    for group in two.folder.groups:
        fence = group.read_json(group.fence)
        assert fence["committed"] == {"0": 5, "1": None}
        assert set(fence["processed"]) == {"0", "1"}


def test_the_teardown_removes_both_groups(two: World) -> None:
    """Workloads by the run's label, consumer groups by the run's topic."""
    start(two)
    admin: FakeKafkaAdmin = two.admin
    admin.groups = {g: {} for g in (two.names.group, two.names.second.group, "enrich.others")}

    removed = remove_everything(two.kube, admin, lambda _: None, is_embedded=True)  # type: ignore[arg-type]

    assert sorted(removed.groups) == sorted([two.names.group, two.names.second.group])
    assert len(removed.topics) == 5
    assert not two.kube.list("Deployment")
    assert not two.kube.list("Pod")


def test_a_phase_is_recorded_for_both_groups(two: World) -> None:
    """Each folder's report has the phases of the run."""
    start(two)

    first, second = ((group.path / "phases.jsonl").read_text() for group in two.folder.groups)

    assert first == second
    assert "StartRecorderOperator" in first


@pytest.mark.parametrize(
    ("until", "is_of_run"), [(REPLICAS_SETTLED, False), (ACTIONS_PLAYED, True)]
)
def test_a_wait_is_for_both_groups_unless_its_state_is_one_of_the_run(
    two: World, until: Wait, *, is_of_run: bool
) -> None:
    """Each group is waited for by its own names and policy."""
    sensor = RunSensor(task_id="it", run_folder=str(two.folder.path), until=until)
    cell = CellRun.open(str(two.folder.path))

    made = sensor.conditions(cell)

    assert list(made) == ([""] if is_of_run else ["first_group", "second_group"])
    assert list(sensor.conditions(replace(cell, second=None))) == [""]
    if not is_of_run:
        workloads = [getattr(condition, "workload", None) for condition in made.values()]
        assert workloads == ["consumer", "second-consumer"]


def test_a_second_group_is_found_below_its_run(two: World) -> None:
    """A command names it after a slash; the list of runs has the run once."""
    from lagbench.adapters.runs.named_run import find
    from lagbench.adapters.runs.run_folder import list_runs

    root = two.folder.path.parent

    found = find(f"{two.folder.run_id}/second_group", root)

    assert found == RunFolder(two.folder.path / "second_group")
    assert found.reference == f"{two.folder.run_id}/second_group"
    assert [run.run_id for run in list_runs(root)] == [two.folder.run_id]


def test_the_second_group_s_lag_scaler_is_started_for_its_policy_alone(two: World) -> None:
    """The first group's policy does not ask one, so only the second group's runs."""
    second = two.folder.make_second()
    asking = copy.deepcopy(SCALED_OBJECT)
    address = {"scalerAddress": "lagbench-lag-scaler.lagbench:6000", "lagThreshold": "100"}
    asking["spec"]["triggers"] = [{"type": "external", "metadata": address}]
    second.write_text(second.policy, yaml.safe_dump(asking))

    start(two)

    scalers = [key for key in two.kube.objects if "lag-scaler" in key[1] and key[0] != "Pod"]
    assert sorted(scalers) == [
        ("Deployment", "second-lagbench-lag-scaler"),
        ("Service", "second-lagbench-lag-scaler"),
    ]
