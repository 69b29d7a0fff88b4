"""The tasks around the player of actions: start it, wait for it, stop it."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_kafka_admin import FakeKafkaAdmin
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, SCENARIO, SERVERS, World, workload

from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench.adapters.kube import cluster_check as manifest_files
from lagbench.adapters.kube.workloads import remove_everything
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.scenario.run_names import RUN_ID_LABEL, SWAP_ANNOTATION, RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import NotReady
from lagbench.programs.live.run_follower import parse_settings
from lagbench_airflow.operators import start_companions as follow_run
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.operators.fence_run import FenceRunOperator
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.start_companions import (
    FollowRunOperator,
    StartActionsOperator,
    StartRecorderOperator,
    airflow_pid,
    outermost_airflow,
)
from lagbench_airflow.sensors.run_sensor import ACTIONS_PLAYED, REPLICAS_SETTLED, RunSensor, Wait
from lagbench_airflow.task_life import CellRun

KILL = {"kind": "kill_pod", "at_seconds": 5}

SWAP = {"kind": "swap_policy", "at_seconds": 6, "policy": "other"}

PAUSE = {"kind": "pause_pod", "at_seconds": 5, "for_seconds": 40}


def plan(world: World, *actions: dict[str, Any]) -> None:
    """Give the run actions, and a manifest for their player."""
    world.folder.write_text(
        world.folder.scenario, yaml.safe_dump({**SCENARIO, "actions": list(actions)})
    )
    base: Path = manifest_files.BASE / "actions"
    base.mkdir()
    (base / "job.yaml").write_text(yaml.safe_dump(workload("Job", "actions")))


def player_pod(world: World, *, is_ready: bool = True, phase: str = "Running") -> None:
    """Let the player's pod exist."""
    name = f"{world.names.actions_job}-x"
    world.kube.objects["Pod", name] = {
        "kind": "Pod",
        "metadata": {"name": name, "labels": {RUN_ID_LABEL: world.names.run_id}},
        "spec": {"containers": [{"name": "actions"}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": str(is_ready)}],
        },
    }
    world.kube.logs[name] = "no broker"


def start(world: World) -> dict[str, Any]:
    """Run the task."""
    operator = StartActionsOperator(task_id="start_actions", run_folder=str(world.folder.path))
    found: dict[str, Any] = operator.execute(world.context)
    return found


def settings(world: World) -> dict[str, Any]:
    """Return the document of the player."""
    return document_of(world.kube.objects["Job", world.names.actions_job])


def test_without_actions_nothing_is_started(world: World) -> None:
    """The task of every run ends at once."""
    assert start(world) == {"actions": 0}
    assert world.kube.calls == []


def test_the_player_gets_the_actions_and_is_tried_once(world: World) -> None:
    """A retry of the task finds the Job of the run, and creates no second one."""
    plan(world, KILL)
    player_pod(world)

    start(world)
    start(world)

    assert settings(world)["actions"] == [{**KILL, "pods": 1}]
    job = world.kube.objects["Job", world.names.actions_job]["spec"]
    assert job["backoffLimit"] == 0
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert world.kube.calls.count(f"create Job/{world.names.actions_job}") == 1


def test_the_player_gets_the_policies_of_swaps(world: World) -> None:
    """As a run applies them, with the action's number, by which KEDA's HPA shows the swap."""
    plan(world, KILL, SWAP)
    world.folder.write_text(world.folder.swapped_policy(1), yaml.safe_dump(SCALED_OBJECT))
    player_pod(world)

    start(world)

    (number, policy), *others = settings(world)["policies"].items()
    assert (number, others) == ("1", [])
    assert policy["metadata"]["annotations"][SWAP_ANNOTATION] == "1"
    assert policy["spec"]["triggers"][0]["metadata"]["topic"] == world.names.events_topic
    kept = yaml.safe_load(world.folder.read_text(world.folder.swapped_policy(1)))
    assert kept == policy


def test_a_player_that_ended_before_the_stream_is_named(world: World) -> None:
    """The message has its last words, and no load is offered."""
    plan(world, KILL)
    player_pod(world, is_ready=False, phase="Failed")

    with pytest.raises(NotReady, match="no broker"):
        start(world)


def test_the_last_swap_in_time_is_the_policy_at_the_end(world: World) -> None:
    """The replicas settle at its floor; a swap in a state comes after those at a second."""
    late = {"kind": "swap_policy", "at": "lag_drained", "policy": "late"}
    plan(world, late, SWAP)
    for number, floor in ((0, 3), (1, 1)):
        spec = {**SCALED_OBJECT["spec"], "minReplicaCount": floor}
        world.folder.write_text(
            world.folder.swapped_policy(number), yaml.safe_dump({**SCALED_OBJECT, "spec": spec})
        )

    assert CellRun.open(str(world.folder.path)).last_policy.limits.floor_replicas == 3


def test_the_fence_stops_the_player_before_the_policy_goes(world: World) -> None:
    """A swap in progress would put a policy in force again; its log is kept."""
    plan(world, KILL)
    player_pod(world)
    start(world)
    labels = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply({**SCALED_OBJECT, "metadata": {"name": "consumer", "labels": labels}})
    pod = f"{world.names.actions_job}-x"
    owner = ("Job", world.names.actions_job)
    world.kube.objects["Pod", pod]["owner"] = owner
    world.admin.create_topics([TopicSpec(name, 1) for name in world.names.topics])

    FenceRunOperator(task_id="fence_run", run_folder=str(world.folder.path)).execute(world.context)

    deleted = [call for call in world.kube.calls if call.startswith("delete")]
    assert deleted[:2] == [f"delete Job/{owner[1]}", "delete ScaledObject/consumer"]
    assert world.folder.read_text(world.folder.logs / f"{pod}.log") == "no broker"


def follow(world: World) -> dict[str, Any]:
    """Run the task."""
    operator = FollowRunOperator(task_id="follow_run", run_folder=str(world.folder.path))
    return operator.execute(world.context)


def test_the_follower_gets_the_run_and_its_owner(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command is one that the program understands."""
    started: list[Sequence[str]] = []
    monkeypatch.setattr(follow_run, "start_detached", lambda c, log: started.append(c) or 7)
    monkeypatch.setattr(follow_run, "airflow_pid", lambda: 4711)

    assert follow(world) == {"follower": 7}
    settings = parse_settings(started[0][3:], {})
    assert settings.run_folder == world.folder.path.absolute()
    assert (settings.bootstrap_servers, settings.owner_pid) == (SERVERS, 4711)


def test_a_run_goes_on_without_its_follower(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No measure needs it, so a machine without room for one more process only gets a warning."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(follow_run, "start_detached", refuse)

    assert follow(world) == {"follower": None}


SHELL = ["-bash"]

RUN = ["/venv/bin/python", "/venv/bin/lagbench", "run", "quick_spike"]

SERVER = ["/venv/bin/python", "-m", "lagbench.orchestrator.airflow_supervisor", "--log", "x"]


@pytest.mark.parametrize(
    ("commands", "place"),
    [
        ([["/venv/bin/python", "-m", "airflow", "dags", "test", "scenario_run"], RUN, SHELL], 0),
        (
            [
                ["airflow task runner: scenario_run.follow_run"],
                ["airflow worker -- LocalExecutor: scenario_run.follow_run"],
                ["airflow scheduler -- "],
                SERVER,
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
    """Dags test is its own; else it is what starts the scheduler, again if that has ended."""
    assert outermost_airflow(commands) == place


def test_without_airflow_it_is_the_task_itself() -> None:
    """A process that stands alone is its own owner."""
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


def start_of_second_group(world: World) -> None:
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
    start_of_second_group(two)

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
    start_of_second_group(two)
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
    start_of_second_group(two)
    admin: FakeKafkaAdmin = two.admin
    admin.groups = {g: {} for g in (two.names.group, two.names.second.group, "enrich.others")}

    removed = remove_everything(two.kube, admin, lambda _: None, is_embedded=True)  # type: ignore[arg-type]

    assert sorted(removed.groups) == sorted([two.names.group, two.names.second.group])
    assert len(removed.topics) == 5
    assert not two.kube.list("Deployment")
    assert not two.kube.list("Pod")


def test_a_phase_is_recorded_for_both_groups(two: World) -> None:
    """Each folder's report has the phases of the run."""
    start_of_second_group(two)

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
    from lagbench.adapters.runs.experiment_folder import find
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

    start_of_second_group(two)

    scalers = [key for key in two.kube.objects if "lag-scaler" in key[1] and key[0] != "Pod"]
    assert sorted(scalers) == [
        ("Deployment", "second-lagbench-lag-scaler"),
        ("Service", "second-lagbench-lag-scaler"),
    ]
