"""The waits of a run, in place and deferred."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from tests.unit.plugins.conftest import World, change_scenario, workload

from lagbench.adapters.kafka.kafka_admin import GroupMember, TopicSpec
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.errors import StillWaiting
from lagbench_airflow.sensors.run_sensor import (
    ACTIONS_PLAYED,
    GROUP_SETTLED,
    GROUP_STABLE,
    LAG_AT_REST,
    LAG_BUILDS_UP,
    LAG_DRAINED,
    REPLICAS_SETTLED,
    TRAFFIC_FINISHED,
    RunSensor,
    Wait,
)
from lagbench_airflow.task_life import CellRun
from lagbench_airflow.triggers.condition import ConditionTrigger
from lagbench_airflow.triggers.conditions import RunGroupStable


@pytest.fixture(autouse=True)
def started_stream(world: World) -> None:
    """Let the stream have started just now; its 20 planned seconds are ahead."""
    start_stream(world, seconds_ago=0.0)


def start_stream(world: World, *, seconds_ago: float) -> None:
    """Note in the manifest when the stream started."""
    world.folder.update_manifest(stream_started_at=time.time_ns() - round(seconds_ago * 1e9))


def create_job(world: World) -> None:
    """Let the producer's Job run."""
    world.kube.apply(workload("Job", "producer") | {"metadata": {"name": world.names.producer_job}})


def cell_of(world: World) -> CellRun:
    """Return the run as a task reads it."""
    return CellRun.open(str(world.folder.path))


def run(until: Wait, world: World) -> dict[str, Any]:
    """Run a sensor in its task, which holds for no time and gives up after 0.1 s."""
    quick = replace(until, most_seconds=lambda _: 0.1, hold_seconds=lambda _: 0.0)
    sensor = RunSensor(
        task_id="it",
        run_folder=str(world.folder.path),
        until=quick,
        deferrable=False,
        poke_interval=0.01,
    )
    result: dict[str, Any] = sensor.execute(world.context)
    return result


def start_consumers(world: World, replicas: int, kind: str = "Deployment") -> dict[str, Any]:
    """Let the consumers run, every pod a member of the group; return the members."""
    manifest = workload(kind, "consumer")
    manifest["spec"]["replicas"] = replicas
    manifest["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] = world.names.run_id
    world.kube.apply(manifest)
    topic = world.names.events_topic
    world.admin.topics[topic] = dict.fromkeys(range(4), 0)
    members: dict[str, Any] = {
        f"consumer-{number}": [(topic, p) for p in range(4) if p % replicas == number]
        for number in range(replicas)
    }
    world.admin.groups[world.names.group] = members
    return members


def test_a_long_wait_defers_to_a_trigger(world: World) -> None:
    """A wait that lasts gives the worker back, and its trigger does not fire at once."""
    world.total_lag = 1
    asked_at = time.time()

    with pytest.raises(TaskDeferred) as deferred:
        RunSensor(
            task_id="it",
            run_folder=str(world.folder.path),
            until=LAG_DRAINED,
            defer_after_seconds=0.05,
        ).execute(world.context)

    trigger = deferred.value.trigger
    assert isinstance(trigger, ConditionTrigger)
    assert trigger.not_before_at > asked_at + 5
    assert trigger.deadline_at > trigger.not_before_at
    assert trigger.hold_seconds == LAG_DRAINED.hold_seconds(cell_of(world)) > 0
    assert deferred.value.method_name == "execute_complete"


def test_the_limits_are_the_scenario_s(world: World) -> None:
    """Each wait is bounded; an action may wait for the drain, and then lasts."""
    change_scenario(world, actions=[{"kind": "pause_pod", "at_seconds": 5, "for_seconds": 40}])
    cell = cell_of(world)
    limits = cell.scenario.timeouts

    assert LAG_DRAINED.most_seconds(cell) == LAG_AT_REST.most_seconds(cell) == limits.drain_seconds
    assert LAG_BUILDS_UP.most_seconds(cell) == TRAFFIC_FINISHED.most_seconds(cell) == 20 + 330
    assert REPLICAS_SETTLED.most_seconds(cell) == limits.settle_seconds
    assert ACTIONS_PLAYED.most_seconds(cell) > limits.drain_seconds + 40
    assert GROUP_SETTLED.most_seconds(cell) > cell.scenario.longest_session_seconds


def test_the_last_step_under_load_is_watched_for_a_sync_of_the_hpa(world: World) -> None:
    """Its cost, and a reversal by the policy, are visible before the load ends."""
    assert REPLICAS_SETTLED.hold_seconds(cell_of(world)) > 15
    change_scenario(world, tail="none")
    assert REPLICAS_SETTLED.hold_seconds(cell_of(world)) == 1


def test_lag_builds_up_beyond_the_policy_s_threshold(world: World) -> None:
    """That is its lagThreshold of 100; the producer's end below it is a result, no failure."""
    create_job(world)
    world.total_lag = 101
    assert run(LAG_BUILDS_UP, world)["reached"] is True

    world.total_lag = 100
    assert run(LAG_BUILDS_UP, world)["reason"] == "timed_out"
    world.kube.finish_job(world.names.producer_job)
    assert run(LAG_BUILDS_UP, world) == {
        "reached": False,
        "reason": "moot",
        "seen": {"total_lag": 100, "largest_partition_lag": 100},
    }


def test_a_lag_that_cannot_rise_any_more_is_not_waited_for(world: World) -> None:
    """The base load of the tail is no spike: once the planned window has ended lag stays down."""
    create_job(world)
    start_stream(world, seconds_ago=20.5)

    assert run(LAG_BUILDS_UP, world)["reason"] == "moot"


@pytest.mark.parametrize(("until", "most"), [(LAG_DRAINED, 0), (LAG_AT_REST, 200)])
def test_drained_means_zero_and_at_rest_what_is_in_flight(
    world: World, until: Wait, most: int
) -> None:
    """Under 100/s two seconds of load are in flight; after the limit the run continues."""
    world.total_lag = most
    assert run(until, world)["reached"] is True
    world.total_lag = most + 1
    assert run(until, world)["reason"] == "timed_out"


def test_without_load_the_policy_s_threshold_is_at_rest(world: World) -> None:
    """Its 100 messages may wait for ever."""
    change_scenario(world, tail="none")
    world.total_lag = 100
    assert run(LAG_AT_REST, world)["reached"] is True
    world.total_lag = 101
    assert run(LAG_AT_REST, world)["reached"] is False


def test_a_broker_outage_is_no_drained_group(world: World) -> None:
    """Missing is not zero: a broker that does not answer proves nothing."""
    world.admin.is_down = True

    result = run(LAG_DRAINED, world)

    assert (result["reached"], list(result["seen"])) == (False, ["error"])


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_traffic_is_finished_either_way(world: World, end: str) -> None:
    """A generator that failed ends the traffic as well: the verdict judges it."""
    create_job(world)
    world.kube.finish_job(world.names.producer_job, end)

    assert run(TRAFFIC_FINISHED, world)["seen"] == {"traffic": end.lower()}


def test_the_tail_is_no_planned_traffic(world: World) -> None:
    """After its planned window the traffic is finished, though the Job runs on or was deleted."""
    create_job(world)
    assert run(TRAFFIC_FINISHED, world)["reached"] is False

    start_stream(world, seconds_ago=20.5)
    assert run(TRAFFIC_FINISHED, world)["seen"] == {"traffic": "planned window ended"}

    world.kube.delete("Job", world.names.producer_job)
    assert run(TRAFFIC_FINISHED, world)["reached"] is True


def test_without_a_tail_the_job_reports_the_end(world: World) -> None:
    """A producer that still flushes has not finished; one whose Job is gone never reports."""
    change_scenario(world, tail="none")
    start_stream(world, seconds_ago=25)
    create_job(world)
    assert run(TRAFFIC_FINISHED, world)["reached"] is False

    world.kube.delete("Job", world.names.producer_job)
    with pytest.raises(AirflowFailException, match="gone"):
        run(TRAFFIC_FINISHED, world)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("", "timed_out"), ("Complete", "reached"), ("Failed", "moot"), (None, "moot")],
)
def test_the_player_of_actions_is_waited_for(
    world: World, condition: str | None, reason: str
) -> None:
    """A player that failed, or is gone, plays no more: the run goes on."""
    change_scenario(world, actions=[{"kind": "kill_pod", "at_seconds": 5}])
    if condition is not None:
        world.kube.create(workload("Job", world.names.actions_job))
    if condition:
        world.kube.finish_job(world.names.actions_job, condition)

    assert run(ACTIONS_PLAYED, world)["reason"] == reason


def test_without_actions_there_is_nothing_to_wait_for(world: World) -> None:
    """Neither the cluster nor the time matters."""
    world.kube.is_down = True

    assert run(ACTIONS_PLAYED, world)["reached"] is True
    assert ACTIONS_PLAYED.most_seconds(cell_of(world)) == 0


@pytest.mark.parametrize("trouble", ["", "rebalancing", "member missing", "partition unowned"])
def test_a_stable_group_has_every_member_and_owner(world: World, trouble: str) -> None:
    """A spike into a group that still forms would measure its start; at the end it is judged."""
    members = start_consumers(world, 2)
    if trouble == "rebalancing":
        world.admin.is_rebalancing = True
    elif trouble == "member missing":
        del members["consumer-1"]
    elif trouble:
        members["consumer-1"].pop()

    if trouble:
        with pytest.raises(StillWaiting, match="last seen"):
            run(GROUP_STABLE, world)
    else:
        assert run(GROUP_STABLE, world)["reached"] is True
    assert run(GROUP_SETTLED, world)["reached"] is (not trouble)


@pytest.mark.parametrize("partitions", [[], [1, 3]])
def test_a_stranger_in_the_group_is_named_at_once(world: World, partitions: list[int]) -> None:
    """Client, host and partitions, and no retry; at the end the verdict names it instead."""
    members = start_consumers(world, 2)
    members["canary"] = [(world.names.events_topic, p) for p in partitions]
    held = "partitions 1, 3" if partitions else "no partition"

    with pytest.raises(AirflowFailException, match=rf"canary .*127\.0\.0\.1.*{held}"):
        run(GROUP_STABLE, world)
    assert run(GROUP_SETTLED, world)["reason"] == "timed_out"


def test_a_member_whose_pod_is_gone_is_waited_for(world: World) -> None:
    """Its session ends by itself; if it does not, the message names it."""
    start_consumers(world, 2)["consumer-9"] = []

    with pytest.raises(StillWaiting, match=r"consumer-9 .*127\.0\.0\.1"):
        run(GROUP_STABLE, world)


@pytest.mark.parametrize(
    ("client_id", "member", "may_be_own", "pod"),
    [
        (None, "consumer-7d-x2", True, "consumer-7d-x2"),
        (None, "rdkafka", False, "rdkafka"),
        ("", "rdkafka", True, None),
        ("orders", "anything", True, None),
        ("orders-{pod}", "orders-consumer-7d-x2", True, "consumer-7d-x2"),
        ("orders-{pod}", "orders-other-7d-x2", False, "other-7d-x2"),
        ("orders-{pod}", "consumer-7d-x2", False, "consumer-7d-x2"),
    ],
)
def test_a_member_of_a_user_s_consumers_is_told_by_its_client_id(
    client_id: str | None, member: str, *, may_be_own: bool, pod: str | None
) -> None:
    """Only an id with {pod} tells; without it the number of members does."""
    group = RunGroupStable.of(
        RunNames("r"),
        kind="Deployment",
        client_id=client_id,
        kafka_conn_id="k",
        kubernetes_conn_id="c",
    )
    seen = GroupMember("m", member, None, "/h", ())

    assert (group.may_be_own(seen), group.pod_of(seen)) == (may_be_own, pod)


@pytest.mark.parametrize("kind", ["stand-in", "spark"])
def test_a_group_without_its_workload_is_not_stable(world: World, kind: str) -> None:
    """Without pods and without members nothing differs, but nothing consumes either."""
    world.admin.create_topics([TopicSpec(name, 4) for name in world.names.topics])
    change_scenario(world, consumer={"kind": kind})

    assert list(run(GROUP_SETTLED, world)["seen"]) == ["Deployment"]


def test_pods_that_end_again_and_again_end_the_wait(world: World) -> None:
    """At once, with exit code and last lines; at the end of a run an action may have ended them."""
    start_consumers(world, 2).clear()
    world.kube.objects["Pod", "consumer-0"] |= {
        "metadata": {"name": "consumer-0", "labels": consumer_labels(world)},
        "spec": {"containers": [{"name": "main"}]},
        "status": {
            "containerStatuses": [
                {"name": "main", "restartCount": 3, "state": {"terminated": {"exitCode": 2}}}
            ]
        },
    }
    world.kube.logs["consumer-0"] = "can't open file '/app/x.py'"

    with pytest.raises(AirflowFailException, match=r"exit code 2[^$]*can't open file '/app/x.py'"):
        run(GROUP_STABLE, world)
    assert run(GROUP_SETTLED, world)["reason"] == "timed_out"


def consumer_labels(world: World) -> dict[str, str]:
    """Return the labels of the consumers' pods."""
    return {"app": "consumer", RUN_ID_LABEL: world.names.run_id}


def test_no_coordinator_is_asked_while_the_broker_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to a group's coordinator that times out then can end the process."""
    start_consumers(world, 2)
    world.admin.is_down = True
    asked: list[str] = []
    monkeypatch.setattr(world.admin, "describe_group", asked.append)

    with pytest.raises(StillWaiting):
        run(GROUP_STABLE, world)

    assert asked == []


def test_settled_under_load_is_what_the_load_needs(world: World) -> None:
    """Ten seconds a message: a pod does 0.1/s, so four pods, the ceiling, are at rest at 100/s."""
    change_scenario(world, consumer={"process_ms": 10_000})
    start_consumers(world, 4)
    assert run(REPLICAS_SETTLED, world)["reached"] is True

    change_scenario(world, tail="none")
    assert run(REPLICAS_SETTLED, world)["reached"] is False


@pytest.mark.parametrize("until", [REPLICAS_SETTLED, GROUP_SETTLED])
def test_the_waits_read_the_consumers_workload(world: World, until: Wait) -> None:
    """The scenario says whether it is a Deployment or a StatefulSet."""
    start_consumers(world, 2, "StatefulSet")
    assert run(until, world)["reached"] is False

    change_scenario(world, consumer={"workload": "StatefulSet"})

    assert run(until, world)["reached"] is True


def test_settled_means_nothing_in_motion(world: World) -> None:
    """A pod that still terminates keeps the replicas from being settled, an evicted one does not.

    One of somebody else does not count: it may have the consumers' app and a name like theirs, but
    not the run's label.
    """
    start_consumers(world, 2)
    pods = world.kube.objects
    pods["Pod", "consumer-canary"] = {
        "metadata": {"name": "consumer-canary", "labels": {"app": "consumer"}}
    }
    assert run(REPLICAS_SETTLED, world)["reached"] is True

    pods["Pod", "consumer-9"] = {
        "metadata": {"name": "consumer-9", "labels": consumer_labels(world)}
    }
    result = run(REPLICAS_SETTLED, world)
    assert (result["reached"], result["seen"]["existing"]) == (False, 3)

    pods["Pod", "consumer-9"]["status"] = {"phase": "Failed"}
    assert run(REPLICAS_SETTLED, world)["reached"] is True


def test_phases_are_written_for_the_cli(world: World) -> None:
    """The wait leaves a started and a finished phase, one JSON line each."""
    run(LAG_DRAINED, world)

    lines = (world.folder.path / "phases.jsonl").read_text().splitlines()
    phases = [json.loads(line) for line in lines]
    assert [(p["name"], p["state"]) for p in phases] == [("it", "started"), ("it", "finished")]
