"""The waits of a run: their conditions, limits and endings."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from tests.unit.plugins.conftest import World, change_scenario, workload

from lagbench.adapters.kafka.kafka_admin import GroupMember, TopicSpec
from lagbench.core.live.run_state import state_of
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.errors import StillWaiting
from lagbench.programs.live.run_follower import PhaseLog
from lagbench.results.cell_run import CellRun
from lagbench_airflow.sensors import run_sensor as waits
from lagbench_airflow.sensors.run_sensor import ACTIONS_PLAYED, RunSensor, Wait
from lagbench_airflow.triggers import run_conditions
from lagbench_airflow.triggers.condition import ConditionTrigger, run_inline
from lagbench_airflow.triggers.run_conditions import RunGroupStable


@pytest.fixture(autouse=True)
def started_stream(world: World) -> None:
    """Let the stream have started just now; its 20 planned seconds are ahead."""
    start_stream(world, seconds_ago=0.0)


def start_stream(world: World, *, seconds_ago: float) -> None:
    """Note in the manifest when the stream started, and let its producer's Job run."""
    world.folder.update_manifest(stream_started_at=time.time_ns() - round(seconds_ago * 1e9))
    world.kube.apply(workload("Job", "producer") | {"metadata": {"name": world.names.producer_job}})


def cell_of(world: World) -> CellRun:
    """Return the run as a task reads it."""
    return CellRun.open(str(world.folder.path))


def sensor_of(world: World, until: Wait, **more: Any) -> RunSensor:
    """Return the task."""
    return RunSensor(task_id="it", run_folder=str(world.folder.path), until=until, **more)


def run(until: Wait, world: World) -> dict[str, Any]:
    """Wait in the task, without a hold, for 0.1 s."""
    quick = replace(until, most_seconds=lambda _: 0.1, hold_seconds=lambda _: 0.0)
    sensor = sensor_of(world, quick, deferrable=False, poke_interval=0.01)
    result: dict[str, Any] = sensor.execute(world.context)
    return result


def is_reached(until: Wait, world: World) -> bool:
    """Return whether the state is there."""
    return bool(run(until, world)["reached"])


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
    world.total_lag, asked_at = 1, time.time()

    with pytest.raises(TaskDeferred) as deferred:
        sensor_of(world, waits.LAG_DRAINED, defer_after_seconds=0.05).execute(world.context)

    trigger = deferred.value.trigger
    assert isinstance(trigger, ConditionTrigger)
    assert asked_at + 5 < trigger.not_before_at < trigger.deadline_at
    assert trigger.hold_seconds == waits.LAG_DRAINED.hold_seconds(cell_of(world)) > 0
    assert deferred.value.method_name == "execute_complete"


def test_the_limits_are_the_scenario_s(world: World) -> None:
    """Each wait is bounded; an action may wait for the drain, and then lasts.

    Under load the last step is watched for a sync of the HPA: its cost, and a reversal by the
    policy, are visible before the load ends.
    """
    change_scenario(world, actions=[{"kind": "pause_pod", "at_seconds": 5, "for_seconds": 40}])
    cell = cell_of(world)
    limits = cell.scenario.timeouts

    for wait in (waits.LAG_DRAINED, waits.LAG_AT_REST):
        assert wait.most_seconds(cell) == limits.drain_seconds
    for wait in (waits.LAG_BUILDS_UP, waits.TRAFFIC_FINISHED):
        assert wait.most_seconds(cell) == 20 + 330
    assert waits.REPLICAS_SETTLED.most_seconds(cell) == limits.settle_seconds
    assert waits.ACTIONS_PLAYED.most_seconds(cell) > limits.drain_seconds + 40
    assert waits.GROUP_SETTLED.most_seconds(cell) > cell.scenario.longest_session_seconds
    assert waits.REPLICAS_SETTLED.hold_seconds(cell) > 15
    change_scenario(world, tail="none")
    assert waits.REPLICAS_SETTLED.hold_seconds(cell_of(world)) == 1


@pytest.mark.parametrize("actions", [[], [{"kind": "kill_pod", "at_seconds": 5}]])
def test_a_run_without_actions_does_not_play_them(world: World, actions: list[Any]) -> None:
    """Its state stays that of the wait before."""
    change_scenario(world, actions=actions)
    world.total_lag = 0
    for task, until in (("lag_at_rest", waits.LAG_AT_REST), ("actions_played", ACTIONS_PLAYED)):
        quick = replace(until, most_seconds=lambda _: 0.1)
        folder = str(world.folder.path)
        RunSensor(task_id=task, run_folder=folder, until=quick, deferrable=False).execute(
            world.context
        )
    began = [one.name for one in PhaseLog(world.folder.phases).news() if one.state == "started"]

    assert state_of(began[-1]) == ("playing actions" if actions else "draining")


def test_lag_builds_up_beyond_the_policy_s_threshold(world: World) -> None:
    """That is its lagThreshold of 100; the producer's end below it is a result, no failure.

    The base load of the tail is no spike: behind the planned window lag rises no more.
    """
    world.total_lag = 101
    assert is_reached(waits.LAG_BUILDS_UP, world)
    world.total_lag = 100
    assert run(waits.LAG_BUILDS_UP, world)["reason"] == "timed_out"
    world.kube.finish_job(world.names.producer_job)
    seen = {"total_lag": 100, "largest_partition_lag": 100}
    moot = {"reached": False, "reason": "moot", "seen": seen}
    assert run(waits.LAG_BUILDS_UP, world) == moot

    start_stream(world, seconds_ago=20.5)
    assert run(waits.LAG_BUILDS_UP, world) == moot


@pytest.mark.parametrize(
    ("until", "tail", "most"),
    [
        (waits.LAG_DRAINED, "until_settled", 0),
        (waits.LAG_AT_REST, "until_settled", 200),  # under 100/s two seconds of load are in flight
        (waits.LAG_AT_REST, "none", 100),  # without load those of the policy's threshold may wait
    ],
)
def test_drained_means_zero_and_at_rest_what_is_in_flight(
    world: World, until: Wait, tail: str, most: int
) -> None:
    """After the limit the run continues; a broker that does not answer proves nothing."""
    change_scenario(world, tail=tail)
    world.total_lag = most
    assert is_reached(until, world)
    world.total_lag = most + 1
    assert run(until, world)["reason"] == "timed_out"
    world.admin.is_down = True
    assert list(run(until, world)["seen"]) == ["error"]


@pytest.mark.parametrize(
    ("abort", "aborted", "reason"),
    [
        ({"lag_records": 9}, "total lag 10 is above abort.lag_records 9", "moot"),
        ({"lag_records": 9}, "", "timed_out"),  # the generator has failed: the verdict says so
        ({"lag_records": 9}, None, "timed_out"),  # its last record is not there
        (None, "", "timed_out"),
    ],
)
def test_after_an_abort_nothing_waits(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    abort: dict[str, int] | None,
    aborted: str | None,
    reason: str,
) -> None:
    """Neither for drain nor for settling, also when the triggerer makes the wait again."""
    record = None if aborted is None else SimpleNamespace(aborted=aborted)
    monkeypatch.setattr(run_conditions, "first_record", lambda *_: record)
    change_scenario(world, **({} if abort is None else {"abort": abort}))
    start_consumers(world, 2)
    world.admin.groups[world.names.group] = {}
    world.total_lag = 1_000_000
    world.kube.objects["Deployment", "consumer"]["spec"]["replicas"] = 1
    story = (waits.LAG_AT_REST, waits.REPLICAS_SETTLED, waits.LAG_DRAINED, waits.GROUP_SETTLED)
    assert {run(until, world)["reason"] for until in story} == {"timed_out"}
    assert run(waits.ACTIONS_PLAYED, world)["reason"] == "reached"

    world.kube.finish_job(world.names.producer_job, "Failed")

    assert run(waits.ACTIONS_PLAYED, world)["reason"] == "reached"
    ended = [run(until, world) for until in story]
    assert {one["reason"] for one in ended} == {reason}
    assert reason != "moot" or {one["seen"]["aborted"] for one in ended} == {aborted}
    for until in story:
        awaited = sensor_of(world, until).conditions(cell_of(world))
        arguments = {"conditions": awaited, "deadline_at": 0.0, "hold_seconds": 0}
        trigger = ConditionTrigger(**arguments, poll_seconds=1)
        again = ConditionTrigger(**trigger.serialize()[1])
        assert run_inline(again)["reason"] == reason


@pytest.mark.parametrize("end", ["Complete", "Failed"])
def test_traffic_is_finished_either_way(world: World, end: str) -> None:
    """A generator that failed ends it as well; so does the end of the planned window."""
    assert not is_reached(waits.TRAFFIC_FINISHED, world)
    world.kube.finish_job(world.names.producer_job, end)
    assert run(waits.TRAFFIC_FINISHED, world)["seen"] == {"traffic": end.lower()}

    start_stream(world, seconds_ago=20.5)
    ended = {"traffic": "planned window ended"}
    assert run(waits.TRAFFIC_FINISHED, world)["seen"] == ended
    world.kube.delete("Job", world.names.producer_job)
    assert is_reached(waits.TRAFFIC_FINISHED, world)


def test_without_a_tail_the_job_reports_the_end(world: World) -> None:
    """A producer that still flushes has not finished; one whose Job is gone never reports."""
    change_scenario(world, tail="none")
    start_stream(world, seconds_ago=25)
    assert not is_reached(waits.TRAFFIC_FINISHED, world)

    world.kube.delete("Job", world.names.producer_job)
    with pytest.raises(AirflowFailException, match="gone"):
        run(waits.TRAFFIC_FINISHED, world)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [("", "timed_out"), ("Complete", "reached"), ("Failed", "moot"), (None, "moot")],
)
def test_the_player_of_actions_is_waited_for(
    world: World, condition: str | None, reason: str
) -> None:
    """A player that failed, or is gone, plays no more; without actions nothing is asked."""
    world.kube.is_down = True
    assert is_reached(waits.ACTIONS_PLAYED, world)
    assert waits.ACTIONS_PLAYED.most_seconds(cell_of(world)) == 0
    world.kube.is_down = False
    change_scenario(world, actions=[{"kind": "kill_pod", "at_seconds": 5}])
    if condition is not None:
        world.kube.create(workload("Job", world.names.actions_job))
    if condition:
        world.kube.finish_job(world.names.actions_job, condition)

    assert run(waits.ACTIONS_PLAYED, world)["reason"] == reason


@pytest.mark.parametrize(
    "trouble", ["", "rebalancing", "member missing", "partition unowned", "pod gone"]
)
def test_a_stable_group_has_every_member_and_owner(world: World, trouble: str) -> None:
    """A spike into a group that still forms would measure its start; at the end it is judged."""
    members, said = start_consumers(world, 2), "last seen"
    world.admin.is_rebalancing = trouble == "rebalancing"
    if trouble == "member missing":
        del members["consumer-1"]
    elif trouble == "partition unowned":
        members["consumer-1"].pop()
    elif trouble == "pod gone":  # its session ends by itself; if not, the message names it
        members["consumer-9"], said = [], r"consumer-9 .*127\.0\.0\.1"

    if trouble:
        with pytest.raises(StillWaiting, match=said):
            run(waits.GROUP_STABLE, world)
    else:
        assert is_reached(waits.GROUP_STABLE, world)
    assert is_reached(waits.GROUP_SETTLED, world) is (not trouble)


@pytest.mark.parametrize("partitions", [[], [1, 3]])
def test_a_stranger_in_the_group_is_named_at_once(world: World, partitions: list[int]) -> None:
    """Client, host and partitions, and no retry; at the end the verdict names it instead."""
    members = start_consumers(world, 2)
    members["canary"] = [(world.names.events_topic, p) for p in partitions]
    held = "partitions 1, 3" if partitions else "no partition"

    with pytest.raises(AirflowFailException, match=rf"canary .*127\.0\.0\.1.*{held}"):
        run(waits.GROUP_STABLE, world)
    assert run(waits.GROUP_SETTLED, world)["reason"] == "timed_out"


@pytest.mark.parametrize(
    ("client_id", "member", "may_be_own", "pod"),
    [
        (None, "consumer-7d-x2", True, "consumer-7d-x2"),
        (None, "rdkafka", False, "rdkafka"),
        ("", "rdkafka", True, None),
        ("orders", "anything", True, None),
        ("orders-{pod}", "orders-consumer-7d-x2", True, "consumer-7d-x2"),
        ("orders-{pod}", "orders-other-7d-x2", False, "other-7d-x2"),
        ("orders-{pod}", "consumer-7d-x2", False, ""),
    ],
)
def test_a_member_of_a_user_s_consumers_is_told_by_its_client_id(
    client_id: str | None, member: str, *, may_be_own: bool, pod: str | None
) -> None:
    """Only an id with {pod} tells; without it the number of members does."""
    connections = {"kafka_conn_id": "k", "kubernetes_conn_id": "c"}
    names = RunNames("r")
    group = RunGroupStable.of(names, kind="Deployment", client_id=client_id, **connections)
    seen = GroupMember("m", member, None, "/h", ())

    assert (group.may_be_own(seen), group.pod_of(seen)) == (may_be_own, pod)


@pytest.mark.parametrize("kind", ["stand-in", "spark"])
def test_a_group_without_its_workload_is_not_stable(world: World, kind: str) -> None:
    """Without pods and without members nothing differs, but nothing consumes either."""
    world.admin.create_topics([TopicSpec(name, 4) for name in world.names.topics])
    change_scenario(world, consumer={"kind": kind})

    assert list(run(waits.GROUP_SETTLED, world)["seen"]) == ["Deployment"]


def consumer_labels(world: World) -> dict[str, str]:
    """Return the labels of the consumers' pods."""
    return {"app": "consumer", RUN_ID_LABEL: world.names.run_id}


def test_pods_that_end_again_and_again_end_the_wait(world: World) -> None:
    """At once, with exit code and last lines; at the end of a run an action may have ended them."""
    start_consumers(world, 2).clear()
    ended = {"name": "main", "restartCount": 3, "state": {"terminated": {"exitCode": 2}}}
    world.kube.objects["Pod", "consumer-0"] |= {
        "metadata": {"name": "consumer-0", "labels": consumer_labels(world)},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [ended]},
    }
    world.kube.logs["consumer-0"] = "can't open file '/app/x.py'"

    with pytest.raises(AirflowFailException, match=r"exit code 2[^$]*can't open file '/app/x.py'"):
        run(waits.GROUP_STABLE, world)
    assert run(waits.GROUP_SETTLED, world)["reason"] == "timed_out"


def test_no_coordinator_is_asked_while_the_broker_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request to a group's coordinator that times out then can end the process."""
    start_consumers(world, 2)
    world.admin.is_down = True
    asked: list[str] = []
    monkeypatch.setattr(world.admin, "describe_group", asked.append)

    with pytest.raises(StillWaiting):
        run(waits.GROUP_STABLE, world)
    assert asked == []


def test_settled_under_load_is_what_the_load_needs(world: World) -> None:
    """Ten seconds a message: a pod does 0.1/s, so four pods, the ceiling, are at rest at 100/s."""
    change_scenario(world, consumer={"process_ms": 10_000})
    start_consumers(world, 4)
    assert is_reached(waits.REPLICAS_SETTLED, world)
    change_scenario(world, tail="none")
    assert not is_reached(waits.REPLICAS_SETTLED, world)


@pytest.mark.parametrize("until", [waits.REPLICAS_SETTLED, waits.GROUP_SETTLED])
def test_the_waits_read_the_consumers_workload(world: World, until: Wait) -> None:
    """The scenario says whether it is a Deployment or a StatefulSet; the phases are for the CLI."""
    start_consumers(world, 2, "StatefulSet")
    assert not is_reached(until, world)
    change_scenario(world, consumer={"workload": "StatefulSet"})
    assert is_reached(until, world)

    lines = map(json.loads, (world.folder.path / "phases.jsonl").read_text().splitlines())
    assert [(p["name"], p["state"]) for p in lines][-2:] == [("it", "started"), ("it", "finished")]


def test_settled_means_nothing_in_motion(world: World) -> None:
    """A pod that still terminates keeps the replicas from being settled, an evicted one does not.

    One of somebody else does not count: it may have the consumers' app and a name like theirs, but
    not the run's label.
    """
    start_consumers(world, 2)
    pods = world.kube.objects
    theirs = {"name": "consumer-canary", "labels": {"app": "consumer"}}
    pods["Pod", "consumer-canary"] = {"metadata": theirs}
    assert is_reached(waits.REPLICAS_SETTLED, world)

    ours = {"name": "consumer-9", "labels": consumer_labels(world)}
    pods["Pod", "consumer-9"] = {"metadata": ours}
    result = run(waits.REPLICAS_SETTLED, world)
    assert (result["reached"], result["seen"]["existing"]) == (False, 3)

    pods["Pod", "consumer-9"]["status"] = {"phase": "Failed"}
    assert is_reached(waits.REPLICAS_SETTLED, world)
