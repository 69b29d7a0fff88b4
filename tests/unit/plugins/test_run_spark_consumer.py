"""The consumer on Spark as a task: it starts all parts, and leaves none behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR, TriggerFailureReason
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferred,
)
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import World, change_scenario, execute
from tests.unit.plugins.test_workload_operators import ClusterKube

from lagbench.adapters.kube import cluster_check
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.scenario.consumer_kinds import SPARK_DRIVER, SPARK_MASTER
from lagbench.errors import NotReady, WrongInput
from lagbench.project import PROJECT_ROOT
from lagbench_airflow.operators import run_spark_consumer
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.run_spark_consumer import (
    RunCellsSparkConsumerOperator,
    RunSparkConsumerOperator,
    WorkedOff,
)
from lagbench_airflow.task_life import TaskKilled
from lagbench_airflow.triggers.condition import KeptClients, made, written

PARTS = [SPARK_DRIVER, "consumer", SPARK_MASTER]
READ = {"topic": "orders", "group": "billing"}


class ReadyKube(ClusterKube):
    """Has pods that are Ready, unless the driver works on its first batch."""

    is_in_first_batch = False

    def _pod(self, name: str, owner: Any) -> None:
        super()._pod(name, owner)
        if not (self.is_in_first_batch and name.startswith(SPARK_DRIVER)):
            ready = {"type": "Ready", "status": "True"}
            self.objects["Pod", name]["status"] = {"conditions": [ready]}


@pytest.fixture(autouse=True)
def cluster(world: World, monkeypatch: pytest.MonkeyPatch) -> ReadyKube:
    """Return a cluster with the committed manifests."""
    world.kube = kube = ReadyKube()
    world.cluster = ClusterSettings(storage_class="none")
    monkeypatch.setattr(cluster_check, "BASE", PROJECT_ROOT / "k8s" / "base")
    monkeypatch.setattr(cluster_check, "PROJECT_ROOT", PROJECT_ROOT)
    return kube


def task_of(task_id: str = "run", **arguments: Any) -> RunSparkConsumerOperator:
    """Return a task that does not wait for long."""
    quick = {"hold": 0, "poke_interval": 0.01, "timeout": 0.05, "deferrable": False}
    read = {} if "ends" in arguments else READ
    return RunSparkConsumerOperator(task_id=task_id, **{**quick, **read, **arguments})


CONTEXT: Any = {"ti": SimpleNamespace(dag_id="d", run_id="r", map_index=-1)}


def run(task_id: str = "run", **arguments: Any) -> Any:
    """Execute a task of one Dag run."""
    return task_of(task_id, **arguments).execute(CONTEXT)


def left(world: World) -> list[str]:
    """Return the parts that are there, and the topics."""
    parts = [name for name in PARTS if ("Deployment", name) in world.kube.objects]
    pods = world.kube.list("Pod")
    return [*parts, *world.admin.topics, *(pod["metadata"]["name"] for pod in pods)]


def test_it_works_a_topic_off_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads the given topic for the given group, and is the first to end."""
    drivers = []
    read = WorkedOff.read

    def seen(self: WorkedOff, clients: KeptClients) -> Any:
        drivers.append(world.kube.get("Deployment", SPARK_DRIVER))
        return read(self, clients)

    monkeypatch.setattr(WorkedOff, "read", seen)
    found = run(replicas=3)

    assert found["total_lag"] == 0
    document = document_of(drivers[0] or {})
    assert (document["topic"], document["group"], document["floor_workers"]) == (
        *("orders", "billing"),
        3,
    )
    assert left(world) == []
    ended = [call for call in world.kube.calls if call.startswith("delete Deployment")]
    assert ended[0] == f"delete Deployment/{SPARK_DRIVER}"
    assert len(ended) == 3


def lags(world: World, _: pytest.MonkeyPatch) -> None:
    """Let the topic never be worked off."""
    world.total_lag = 5


def works_on(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let the first batch last, of a group whose commits an earlier consumer made."""
    patch.setattr(ReadyKube, "is_in_first_batch", True)


def ends_again(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let the driver's container end again and again."""
    world.total_lag = 5
    start = run_spark_consumer.start_spark

    def broken(*arguments: Any, **named: Any) -> Any:
        start(*arguments, **named)
        ended = {"name": "driver", "restartCount": 3, "state": {"terminated": {"exitCode": 3}}}
        world.kube.objects["Pod", f"{SPARK_DRIVER}-0"]["status"] = {"containerStatuses": [ended]}

    patch.setattr(run_spark_consumer, "start_spark", broken)


def is_killed(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let Airflow end the task when the parts have started."""
    start = run_spark_consumer.start_spark

    def killed(*arguments: Any, **named: Any) -> None:
        start(*arguments, **named)
        assert left(world)
        signal.raise_signal(signal.SIGTERM)

    patch.setattr(run_spark_consumer, "start_spark", killed)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (lags, AirflowSensorTimeout),
        (works_on, AirflowSensorTimeout),
        (ends_again, AirflowFailException),
        (is_killed, TaskKilled),
    ],
)
def test_no_failure_leaves_an_orphan(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    how: Callable[[World, pytest.MonkeyPatch], None],
    error: type[BaseException],
) -> None:
    """However the task ends, its parts and their topics end with it."""
    how(world, monkeypatch)
    with pytest.raises(error):
        run()

    assert left(world) == []


@pytest.mark.parametrize("by", ["the trigger", "the teardown", *TriggerFailureReason])
def test_a_deferred_consumer_is_ended_from_outside(world: World, by: str) -> None:
    """A user kills the deferred task, or a crash leaves it to the teardown of its Dag."""
    world.total_lag = 5
    with pytest.raises(TaskDeferred) as deferred:
        run(deferrable=True, timeout=60)
    assert left(world)

    if by == "the trigger":
        trigger: Any = deferred.value.trigger
        path, arguments = trigger.serialize()
        again = type(trigger)(**arguments)
        assert path.endswith(type(again).__name__)
        asyncio.run(again.on_kill())
    elif by in [*TriggerFailureReason]:
        with pytest.raises((TaskDeferralError, AirflowSensorTimeout)):
            task_of().resume_execution(TRIGGER_FAIL_REPR, {"error": by}, CONTEXT)
    else:
        run("end", ends="another")
        assert left(world)
        run("end", ends="run")
    assert left(world) == []


def test_the_log_has_each_line_of_the_driver_once(world: World) -> None:
    """Also after the triggerer took the wait over; a new container begins its log again."""
    with pytest.raises(TaskDeferred) as deferred:
        run(deferrable=True, timeout=60, hold=5)
    trigger: Any = deferred.value.trigger
    (watch,) = trigger.conditions.values()
    pod, clients = f"{SPARK_DRIVER}-0", KeptClients()
    watch = made(written(watch))
    first = watch.read(clients).lines
    world.kube.logs[pod] += "second\n"
    second = watch.read(clients).lines
    world.kube.logs[pod] = "again\n"

    assert (watch.shown, first, second) == (2, (), ("second",))
    assert watch.read(clients).lines == ("again",)


def test_the_parts_of_a_run_are_left_alone(world: World) -> None:
    """Server-side apply would take them over."""
    change_scenario(world, consumer={"kind": "spark"})
    execute(RunCellsSparkConsumerOperator, world)
    before = left(world)
    with pytest.raises(NotReady, match=SPARK_DRIVER):
        run()

    assert left(world) == before


@pytest.mark.parametrize("kind", ["stand-in", "spark"])
def test_a_cell_skips_the_task_of_the_other_kind(world: World, kind: str) -> None:
    """Both are in the graph; one of them starts the consumers."""
    change_scenario(world, consumer={"kind": kind})
    tasks = [RunConsumersOperator, RunCellsSparkConsumerOperator]
    started, skipped = tasks if kind == "stand-in" else reversed(tasks)
    with pytest.raises(AirflowSkipException):
        execute(skipped, world)
    assert not world.folder.phases.exists()

    assert execute(started, world)["replicas"] == 2


@pytest.mark.parametrize("arguments", [{"ends": "run", **READ}, {"topic": "orders"}, {}])
def test_a_task_runs_a_consumer_or_ends_one(arguments: dict[str, Any]) -> None:
    """The wrong arguments end the reading of the Dag."""
    with pytest.raises(WrongInput) as refused:
        RunSparkConsumerOperator(task_id="run", **arguments)
    assert (refused.value.where, refused.value.field) == ("task run", "topic")


def test_the_scenario_says_how_spark_works(world: World) -> None:
    """One of another kind of consumer is refused before anything starts."""
    with pytest.raises(AirflowFailException, match=r"consumer\.kind spark"):
        run(scenario="hello")
    assert world.kube.calls == []
