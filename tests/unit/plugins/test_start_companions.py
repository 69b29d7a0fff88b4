"""The player of actions, the follower, and a run with two consumer groups."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import (
    HPA,
    SCALED_OBJECT,
    SCENARIO,
    SERVERS,
    World,
    change_scenario,
    execute,
    workload,
)

from lagbench.adapters.clean_up import remove_everything
from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench.adapters.kube import cluster_check as manifest_files
from lagbench.adapters.runs.experiment_folder import find
from lagbench.adapters.runs.run_folder import RunFolder, list_runs
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.scenario.run_names import RUN_ID_LABEL, SWAP_ANNOTATION, RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import NotReady
from lagbench.orchestrator.airflow_supervisor import airflow_pid, outermost_airflow
from lagbench.programs.live.run_follower import parse_settings
from lagbench.results.cell_run import CellRun
from lagbench_airflow.operators import start_companions as follow_run
from lagbench_airflow.operators.apply_run_policy import ApplyRunPolicyOperator
from lagbench_airflow.operators.fence_run import FenceRunOperator
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.start_companions import (
    FollowRunOperator,
    StartActionsOperator,
    StartRecorderOperator,
)
from lagbench_airflow.sensors.run_sensor import ACTIONS_PLAYED, REPLICAS_SETTLED, RunSensor, Wait

KILL = {"kind": "kill_pod", "at_seconds": 5}
SWAP = {"kind": "swap_policy", "at_seconds": 6, "policy": "other"}


def plan(world: World, *actions: dict[str, Any], phase: str = "Running") -> str:
    """Give the run actions, a manifest for their player, and its pod, whose name is returned."""
    change_scenario(world, actions=list(actions))
    (manifest_files.BASE / "actions").mkdir()
    job = yaml.safe_dump(workload("Job", "actions"))
    (manifest_files.BASE / "actions" / "job.yaml").write_text(job)
    name, is_ready = f"{world.names.actions_job}-x", phase == "Running"
    world.kube.objects["Pod", name] = {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {RUN_ID_LABEL: world.names.run_id}},
        "spec": {"containers": [{"name": "actions"}]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(is_ready)}]},
    }
    world.kube.logs[name] = "no broker"
    return name


def player(world: World) -> dict[str, Any]:
    """Start the player; return the document of its settings."""
    execute(StartActionsOperator, world)
    return document_of(world.kube.objects["Job", world.names.actions_job])


def test_without_actions_nothing_is_started(world: World) -> None:
    """The task of every run ends at once."""
    assert execute(StartActionsOperator, world) == {"actions": 0}
    assert world.kube.calls == []


def test_the_player_gets_the_actions_and_is_tried_once(world: World) -> None:
    """A retry of the task finds the Job of the run, and creates no second one.

    It gets the policies of swaps as a run applies them, with the action's number, by which KEDA's
    HPA shows the swap.
    """
    plan(world, KILL, SWAP)
    world.folder.write_text(world.folder.swapped_policy(1), yaml.safe_dump(SCALED_OBJECT))
    player(world)
    found = player(world)

    assert found["actions"][0] == {**KILL, "pods": 1}
    job = world.kube.objects["Job", world.names.actions_job]["spec"]
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert world.kube.calls.count(f"create Job/{world.names.actions_job}") == 1
    ((number, policy),) = found["policies"].items()
    assert number == policy["metadata"]["annotations"][SWAP_ANNOTATION] == "1"
    assert policy["spec"]["triggers"][0]["metadata"]["topic"] == world.names.events_topic
    assert yaml.safe_load(world.folder.read_text(world.folder.swapped_policy(1))) == policy


def test_a_player_that_ended_before_the_stream_is_named(world: World) -> None:
    """The message has its last words, and no load is offered."""
    plan(world, KILL, phase="Failed")

    with pytest.raises(NotReady, match="no broker"):
        player(world)


def test_the_last_swap_in_time_is_the_policy_at_the_end(world: World) -> None:
    """The replicas settle at its floor; a swap in a state comes after those at a second."""
    plan(world, {"kind": "swap_policy", "at": "lag_drained", "policy": "late"}, SWAP)
    for number, floor in ((0, 3), (1, 1)):
        spec = {**SCALED_OBJECT["spec"], "minReplicaCount": floor}
        text = yaml.safe_dump({**SCALED_OBJECT, "spec": spec})
        world.folder.write_text(world.folder.swapped_policy(number), text)

    assert CellRun.open(str(world.folder.path)).last_policy.limits.floor_replicas == 3


def test_the_fence_stops_the_player_before_the_policy_goes(world: World) -> None:
    """A swap in progress would put a policy in force again; its log is kept."""
    pod = plan(world, KILL)
    player(world)
    labels = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply({**SCALED_OBJECT, "metadata": {"name": "consumer", "labels": labels}})
    world.kube.objects["Pod", pod]["owner"] = ("Job", world.names.actions_job)
    world.admin.create_topics([TopicSpec(name, 1) for name in world.names.topics])
    execute(FenceRunOperator, world)

    deleted = [call for call in world.kube.calls if call.startswith("delete")]
    assert deleted[:2] == [f"delete Job/{world.names.actions_job}", "delete ScaledObject/consumer"]
    assert world.folder.read_text(world.folder.logs / f"{pod}.log") == "no broker"


def test_the_follower_gets_the_run_and_its_owner(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command is one that the program understands.

    No measure needs it, so a machine without room for one more process only gets a warning.
    """
    started: list[Sequence[str]] = []
    monkeypatch.setattr(follow_run, "start_detached", lambda c, log: started.append(c) or 7)
    monkeypatch.setattr(follow_run, "airflow_pid", lambda: 4711)
    assert execute(FollowRunOperator, world) == {"follower": 7}
    found = parse_settings(started[0][3:], {})
    assert found.run_folder == world.folder.path.absolute()
    assert (found.bootstrap_servers, found.owner_pid) == (SERVERS, 4711)

    def refuse(*_: object, **__: object) -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(follow_run, "start_detached", refuse)
    assert execute(FollowRunOperator, world) == {"follower": None}


SHELL, PYTHON = ["-bash"], "/venv/bin/python"


@pytest.mark.parametrize(
    ("commands", "place"),
    [
        ([[PYTHON, "-m", "airflow", "dags", "test"], [PYTHON, "/venv/bin/lagbench"], SHELL], 0),
        (
            [
                ["airflow task runner: scenario_run.follow_run"],
                ["airflow worker -- LocalExecutor: scenario_run.follow_run"],
                ["airflow scheduler -- "],
                [PYTHON, "-m", "lagbench.orchestrator.airflow_supervisor", "--log", "x"],
                ["/sbin/init"],
            ],
            3,
        ),
        ([["airflow task runner"], ["/usr/local/bin/airflow", "celery", "worker"], SHELL], 1),
        ([["python", "-m", "pytest"], ["/home/airflow/.venv/bin/python", "x"], SHELL], 0),
        ([[], []], 0),
    ],
)
def test_the_outermost_airflow_is_found(commands: list[list[str]], place: int) -> None:
    """Dags test is its own; else it is what starts the scheduler; without Airflow the task is."""
    assert outermost_airflow(commands) == place
    assert airflow_pid() == os.getpid()


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


def start_both(world: World) -> None:
    """Run consumers, recorders and policies."""
    for kind in (RunConsumersOperator, StartRecorderOperator, ApplyRunPolicyOperator):
        execute(kind, world)


def test_a_group_s_folder_is_a_run_folder_of_its_own_names(two: World) -> None:
    """It is opened like any other; the run's id stays, and the names are the second group's.

    A command names it after a slash; the list of runs has the run once.
    """
    (first, second) = CellRun.open(str(two.folder.path)).groups

    assert first.names == RunNames(two.folder.run_id)
    assert second.names == first.names.second
    assert (first.scenario.consumer.process_ms, second.scenario.consumer.process_ms) == (2.0, 9)
    assert CellRun.open(str(second.folder.path)).names == second.names
    root, reference = two.folder.path.parent, f"{two.folder.run_id}/second_group"
    found = find(reference, root)
    assert (found, found.reference) == (RunFolder(two.folder.path / "second_group"), reference)
    assert [run.run_id for run in list_runs(root)] == [two.folder.run_id]


def test_each_group_gets_its_workload_recorder_and_policy(two: World) -> None:
    """The first group's objects are those of a run with one group; both have its phases.

    A lag scaler is started for the group's policy alone that asks one.
    """
    start_both(two)
    kinds = {key for key in two.kube.objects if key[0] != "Pod"}
    assert kinds >= {
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
    first, second = ((group.path / "phases.jsonl").read_text() for group in two.folder.groups)
    assert first == second != ""

    asking, of_second = copy.deepcopy(SCALED_OBJECT), two.folder.make_second()
    address = {"scalerAddress": "lagbench-lag-scaler.lagbench:6000", "lagThreshold": "100"}
    asking["spec"]["triggers"] = [{"type": "external", "metadata": address}]
    of_second.write_text(of_second.policy, yaml.safe_dump(asking))
    start_both(two)
    scalers = {key for key in two.kube.objects if "lag-scaler" in key[1] and key[0] != "Pod"}
    name = "second-lagbench-lag-scaler"
    assert scalers == {("Deployment", name), ("Service", name)}


def test_the_fence_stops_both_groups_before_it_writes(two: World) -> None:
    """Both groups' pods have gone, policies and consumers before the recorders."""
    start_both(two)
    two.kube.calls.clear()
    execute(FenceRunOperator, two)

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
    start_both(two)
    kube: Any = two.kube
    admin: Any = two.admin
    admin.groups = {g: {} for g in (two.names.group, two.names.second.group, "enrich.others")}

    removed = remove_everything(kube, admin, lambda _: None, is_embedded=True)

    assert sorted(removed.groups) == sorted([two.names.group, two.names.second.group])
    assert len(removed.topics) == 5
    assert not two.kube.list("Deployment")
    assert not two.kube.list("Pod")


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
