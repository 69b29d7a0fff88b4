"""The tasks around the player of actions: start it, wait for it, stop it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import SCALED_OBJECT, SCENARIO, SERVERS, World, workload

from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench.adapters.kube import cluster_check as manifest_files
from lagbench.core.scenario.run_names import RUN_ID_LABEL, SWAP_ANNOTATION
from lagbench.errors import NotReady
from lagbench.programs.live.follower_settings import parse_settings
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators import start_companions as follow_run
from lagbench_airflow.operators.fence_run import FenceRunOperator
from lagbench_airflow.operators.start_companions import (
    FollowRunOperator,
    StartActionsOperator,
    airflow_pid,
    outermost_airflow,
)

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
