"""The waits of a run's sensors, in place and deferred."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from tests.unit.plugins.conftest import World, workload

from lagbench.errors import StillWaiting
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.sensors.run_group import RunGroupSettledSensor, RunGroupStableSensor
from lagbench_airflow.sensors.run_lag import (
    RunLagAboveSensor,
    RunLagAtRestSensor,
    RunLagDrainedSensor,
)
from lagbench_airflow.sensors.run_replicas import RunReplicasSettledSensor
from lagbench_airflow.sensors.run_sensor import RunSensor
from lagbench_airflow.sensors.traffic_finished import TrafficFinishedSensor
from lagbench_airflow.triggers.condition import ConditionTrigger

SENSORS = [
    RunGroupStableSensor,
    RunGroupSettledSensor,
    RunLagAboveSensor,
    RunLagAtRestSensor,
    RunLagDrainedSensor,
    RunReplicasSettledSensor,
    TrafficFinishedSensor,
]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold for no time and give up after 0.1 s."""
    for kind in SENSORS:
        monkeypatch.setattr(kind, "wait_seconds", lambda *_: 0.1)
    for kind in (RunGroupStableSensor, RunLagDrainedSensor, RunReplicasSettledSensor):
        monkeypatch.setattr(kind, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(RunReplicasSettledSensor, "HOLD_UNDER_LOAD_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def started_stream(world: World) -> None:
    """Let the stream have started just now; its 20 planned seconds are ahead."""
    start_stream(world, seconds_ago=0.0)


def start_stream(world: World, *, seconds_ago: float) -> None:
    """Note in the manifest when the stream started."""
    world.folder.update_manifest(stream_started_at=time.time_ns() - round(seconds_ago * 1e9))


def without_tail(world: World) -> None:
    """Let the scenario end with its own period."""
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(scenario | {"tail": "none"}))


def create_job(world: World) -> None:
    """Let the producer's Job run."""
    world.kube.apply(workload("Job", "producer") | {"metadata": {"name": world.names.producer_job}})


def run(kind: type[RunSensor], world: World) -> dict[str, Any]:
    """Run a sensor in its task."""
    sensor = kind(
        task_id="it", run_folder=str(world.folder.path), deferrable=False, poke_interval=0.01
    )
    result: dict[str, Any] = sensor.execute(world.context)
    return result


def consumer_labels(world: World) -> dict[str, str]:
    """Return the labels of the consumers' pods."""
    return {"app": "consumer", "lagbench.io/run-id": world.names.run_id}


def start_consumers(world: World, replicas: int, kind: str = "Deployment") -> None:
    """Let the consumers run, every pod a member of the group."""
    manifest = workload(kind, "consumer")
    manifest["spec"]["replicas"] = replicas
    manifest["spec"]["template"]["metadata"]["labels"]["lagbench.io/run-id"] = world.names.run_id
    world.kube.apply(manifest)
    topic = world.names.events_topic
    world.admin.topics[topic] = dict.fromkeys(range(4), 0)
    world.admin.groups[world.names.group] = {
        f"consumer-{number}": [(topic, p) for p in range(4) if p % replicas == number]
        for number in range(replicas)
    }


def test_a_long_wait_defers_to_a_trigger(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that lasts gives the worker back, and its trigger does not fire at once."""
    monkeypatch.setattr(RunLagDrainedSensor, "wait_seconds", lambda *_: 60.0)
    world.total_lag = 1
    sensor = RunLagDrainedSensor(
        task_id="it", run_folder=str(world.folder.path), defer_after_seconds=0.05
    )

    asked_at = time.time()

    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute(world.context)

    trigger = deferred.value.trigger
    assert isinstance(trigger, ConditionTrigger)
    assert trigger.not_before_at > asked_at + 5
    assert trigger.deadline_at > trigger.not_before_at
    assert deferred.value.method_name == "execute_complete"


@pytest.mark.parametrize("kind", SENSORS)
def test_every_sensor_can_defer(world: World, kind: type[RunSensor]) -> None:
    """Each builds a trigger from nothing but its run."""
    sensor = kind(task_id="it", run_folder=str(world.folder.path))

    trigger = sensor.trigger(CellRun.open(str(world.folder.path)), deadline_at=1.0)

    assert isinstance(trigger, ConditionTrigger)


def test_a_short_wait_stays_in_its_task(world: World) -> None:
    """What is so already needs no way through the triggerer."""
    sensor = RunLagDrainedSensor(task_id="it", run_folder=str(world.folder.path))

    assert sensor.execute(world.context)["reached"] is True


def test_lag_above_is_reached(world: World) -> None:
    """Lag above the policy's lagThreshold (100) ends the wait."""
    world.total_lag = 101

    assert run(RunLagAboveSensor, world)["reached"] is True


def test_lag_that_never_rises_is_a_result(world: World) -> None:
    """When the producer has ended below the threshold the task succeeds and says so."""
    create_job(world)
    world.kube.finish_job(world.names.producer_job)
    world.total_lag = 100

    result = run(RunLagAboveSensor, world)

    assert result == {
        "reached": False,
        "reason": "moot",
        "seen": {"total_lag": 100, "largest_partition_lag": 100},
    }


def test_drained_means_zero(world: World) -> None:
    """One message left is not drained; the run continues after the limit."""
    assert run(RunLagDrainedSensor, world)["reached"] is True

    world.total_lag = 1

    assert run(RunLagDrainedSensor, world)["reason"] == "timed_out"


def test_a_broker_outage_is_no_drained_group(world: World) -> None:
    """Missing is not zero: a broker that does not answer proves nothing."""
    world.admin.is_down = True

    result = run(RunLagDrainedSensor, world)

    assert result["reached"] is False
    assert "does not answer" in result["seen"]["error"]


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_traffic_is_finished_either_way(world: World, end: str) -> None:
    """A generator that failed ends the traffic as well: the verdict judges it."""
    create_job(world)
    world.kube.finish_job(world.names.producer_job, end)

    assert run(TrafficFinishedSensor, world)["seen"] == {"traffic": end.lower()}


def test_the_tail_is_no_planned_traffic(world: World) -> None:
    """After its planned window the traffic is finished, though the Job runs on or was deleted."""
    create_job(world)
    assert run(TrafficFinishedSensor, world)["reached"] is False

    start_stream(world, seconds_ago=20.5)
    assert run(TrafficFinishedSensor, world)["seen"] == {"traffic": "planned window ended"}

    world.kube.delete("Job", world.names.producer_job)
    assert run(TrafficFinishedSensor, world)["reached"] is True


def test_without_a_tail_the_job_reports_the_end(world: World) -> None:
    """A producer that still flushes after its planned window has not finished."""
    without_tail(world)
    start_stream(world, seconds_ago=25)
    create_job(world)

    assert run(TrafficFinishedSensor, world)["reached"] is False


def test_a_lag_that_cannot_rise_any_more_is_not_waited_for(world: World) -> None:
    """The base load of the tail is no spike: once the planned window has ended lag stays down."""
    create_job(world)
    start_stream(world, seconds_ago=20.5)

    assert run(RunLagAboveSensor, world)["reason"] == "moot"


def test_lag_at_rest_is_the_threshold_or_what_is_in_flight(world: World) -> None:
    """Under 100/s two seconds of load are in flight; without load the policy's 100 may wait."""
    world.total_lag = 200
    assert run(RunLagAtRestSensor, world)["reached"] is True
    world.total_lag = 201
    assert run(RunLagAtRestSensor, world)["reason"] == "timed_out"

    without_tail(world)
    world.total_lag = 100
    assert run(RunLagAtRestSensor, world)["reached"] is True
    world.total_lag = 101
    assert run(RunLagAtRestSensor, world)["reached"] is False


def test_a_job_that_is_gone_ends_the_run(world: World) -> None:
    """Without its Job the run cannot know when the traffic ended; no retry helps."""
    with pytest.raises(AirflowFailException, match="gone"):
        run(TrafficFinishedSensor, world)


def test_a_stable_group_has_every_member(world: World) -> None:
    """Stable means one member per replica and each partition owned once."""
    start_consumers(world, 2)

    assert run(RunGroupStableSensor, world)["reached"] is True


@pytest.mark.parametrize("trouble", ["rebalancing", "member missing", "partition unowned"])
def test_an_unstable_group_fails_the_task(world: World, trouble: str) -> None:
    """A spike into a group that still forms would measure its start; the task is retried."""
    start_consumers(world, 2)
    members = world.admin.groups[world.names.group]
    if trouble == "rebalancing":
        world.admin.is_rebalancing = True
    elif trouble == "member missing":
        del members["consumer-1"]
    else:
        members["consumer-1"].pop()

    with pytest.raises(StillWaiting, match="last seen"):
        run(RunGroupStableSensor, world)


def test_a_group_that_does_not_settle_ends_the_wait(world: World) -> None:
    """At the end the run continues with the group as it is, and its verdict judges that."""
    start_consumers(world, 2)
    assert run(RunGroupSettledSensor, world)["reached"] is True

    del world.admin.groups[world.names.group]["consumer-1"]

    assert run(RunGroupSettledSensor, world)["reason"] == "timed_out"


def test_a_stranger_at_the_end_does_not_cost_the_evidence(world: World) -> None:
    """Refused, it would end the run without a verdict; the verdict names it instead."""
    start_consumers(world, 2)
    world.admin.groups[world.names.group]["stranger"] = []

    assert run(RunGroupSettledSensor, world)["reason"] == "timed_out"


def test_settled_under_load_is_what_the_load_needs(world: World) -> None:
    """Ten seconds a message: a pod does 0.1/s, so four pods, the ceiling, are at rest at 100/s."""
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    slow = scenario | {"consumer": {"process_ms": 10_000}}
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(slow))
    start_consumers(world, 4)
    assert run(RunReplicasSettledSensor, world)["reached"] is True

    world.folder.write_text(world.folder.scenario, yaml.safe_dump(slow | {"tail": "none"}))
    assert run(RunReplicasSettledSensor, world)["reached"] is False


@pytest.mark.parametrize("sensor", [RunReplicasSettledSensor, RunGroupSettledSensor])
def test_the_sensors_read_the_consumers_workload(world: World, sensor: type[RunSensor]) -> None:
    """The scenario says whether it is a Deployment or a StatefulSet."""
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    stateful = scenario | {"consumer": {"workload": "StatefulSet"}}
    start_consumers(world, 2, "StatefulSet")
    assert run(sensor, world)["reached"] is False

    world.folder.write_text(world.folder.scenario, yaml.safe_dump(stateful))

    assert run(sensor, world)["reached"] is True


@pytest.mark.parametrize("partitions", [[], [1, 3]])
def test_a_stranger_in_the_group_is_named_at_once(world: World, partitions: list[int]) -> None:
    """A consumer that is none of the run's pods: client, host and partitions, and no retry."""
    start_consumers(world, 2)
    topic = world.names.events_topic
    world.admin.groups[world.names.group]["canary"] = [(topic, p) for p in partitions]
    held = "partitions 1, 3" if partitions else "no partition"

    with pytest.raises(AirflowFailException, match=f"canary .*{held}"):
        run(RunGroupStableSensor, world)


def test_a_member_whose_pod_is_gone_is_waited_for(world: World) -> None:
    """Its session ends by itself; if it does not, the message names it."""
    start_consumers(world, 2)
    world.admin.groups[world.names.group]["consumer-9"] = []

    with pytest.raises(StillWaiting, match=r"consumer-9 .*127\.0\.0\.1"):
        run(RunGroupStableSensor, world)


def test_settled_means_nothing_in_motion(world: World) -> None:
    """A pod that still terminates keeps the replicas from being settled, a failed one does not."""
    start_consumers(world, 2)
    assert run(RunReplicasSettledSensor, world)["reached"] is True

    world.kube.objects["Pod", "consumer-9"] = {
        "metadata": {"name": "consumer-9", "labels": consumer_labels(world)}
    }

    result = run(RunReplicasSettledSensor, world)
    assert (result["reached"], result["seen"]["existing"]) == (False, 3)

    world.kube.objects["Pod", "consumer-9"]["status"] = {"phase": "Failed"}  # evicted by its node
    assert run(RunReplicasSettledSensor, world)["reached"] is True


def test_a_pod_of_somebody_else_does_not_count_as_a_replica(world: World) -> None:
    """It may have the consumers' app and a name like theirs, but not the run's label."""
    start_consumers(world, 2)
    theirs = {"name": "consumer-canary", "labels": {"app": "consumer"}}
    world.kube.objects["Pod", "consumer-canary"] = {"metadata": theirs}
    assert run(RunReplicasSettledSensor, world)["seen"]["existing"] == 2


def test_no_coordinator_is_asked_while_the_broker_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to a group's coordinator that times out then can end the process."""
    start_consumers(world, 2)
    world.admin.is_down = True
    asked: list[str] = []
    monkeypatch.setattr(world.admin, "describe_group", asked.append)

    with pytest.raises(StillWaiting, match="does not answer"):
        run(RunGroupStableSensor, world)

    assert asked == []


def test_phases_are_written_for_the_cli(world: World) -> None:
    """The wait leaves a started and a finished phase, one JSON line each."""
    run(RunLagDrainedSensor, world)

    lines = (world.folder.path / "phases.jsonl").read_text().splitlines()
    phases = [json.loads(line) for line in lines]
    assert [(p["name"], p["state"]) for p in phases] == [("it", "started"), ("it", "finished")]
