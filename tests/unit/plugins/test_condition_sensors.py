"""The sensors for any Dag: Airflow's own arguments, without a run folder."""

from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import timezone
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferralError,
    TaskDeferred,
)
from tests.unit.plugins.conftest import World, workload

from lagbench.errors import NotReady, WrongInput
from lagbench_airflow.hooks import kafka, kube
from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.consumer_lag import ConsumerLagAboveSensor, ConsumerLagDrainedSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor
from lagbench_airflow.triggers import condition
from lagbench_airflow.triggers.condition import ConditionTrigger, run_inline

NAMES = {"topic": "orders", "group": "billing"}
QUICK = {"task_id": "it", "poke_interval": 0.01, "timeout": 0.1}


def drained(**changes: Any) -> ConsumerLagDrainedSensor:
    """Return a sensor that gives up after 0.1 s."""
    return ConsumerLagDrainedSensor(**{**QUICK, **NAMES, **changes})


def group_of(world: World, **members: list[int]) -> None:
    """Let the group have these partitions of the topic, which has two."""
    world.admin.topics["orders"] = {0: 0, 1: 0}
    world.admin.groups["billing"] = {
        name: [("orders", number) for number in numbers] for name, numbers in members.items()
    }


def rescheduled_before(seconds: float) -> Any:
    """Return a context of a task that was first rescheduled so long ago."""
    first = timezone.utcnow() - timedelta(seconds=seconds)
    return {"ti": SimpleNamespace(get_first_reschedule_date=lambda _: first)}


def test_a_state_that_is_there_succeeds_at_once(world: World) -> None:
    """The result is the reading."""
    assert drained().execute(world.context) == {"total_lag": 0, "largest_partition_lag": 0}


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize(
    ("soft_fail", "ending"), [(False, AirflowSensorTimeout), (True, AirflowSkipException)]
)
def test_a_timeout_is_final_and_says_what_was_seen(
    world: World, deferrable: bool, soft_fail: bool, ending: type[Exception]
) -> None:
    """Airflow does not retry a sensor that timed out; soft_fail skips, wherever it waits."""
    world.total_lag = 7

    with pytest.raises(ending, match=None if soft_fail else "'total_lag': 7"):
        drained(deferrable=deferrable, soft_fail=soft_fail).execute(world.context)


def test_reschedule_gives_the_worker_back(world: World) -> None:
    """Between two looks the task holds no slot; the timeout counts from the first one."""
    world.total_lag = 7
    sensor = drained(mode="reschedule", poke_interval=30, timeout=60)
    before = timezone.utcnow()

    with pytest.raises(AirflowRescheduleException) as again:
        sensor.execute(rescheduled_before(1))
    assert again.value.reschedule_date >= before + timedelta(seconds=30)

    with pytest.raises(AirflowSensorTimeout):
        sensor.execute(rescheduled_before(61))


def deferred(
    world: World, **changes: Any
) -> tuple[ConsumerLagDrainedSensor, TaskDeferred, ConditionTrigger]:
    """Return a sensor that has deferred, the deferral and its trigger."""
    world.total_lag = 7
    sensor = drained(deferrable=True, timeout=600, **changes)
    with pytest.raises(TaskDeferred) as deferral:
        sensor.execute(world.context)
    trigger = deferral.value.trigger
    assert isinstance(trigger, ConditionTrigger)
    return sensor, deferral.value, trigger


def test_a_deferred_wait_keeps_timeout_poke_interval_and_hold(world: World) -> None:
    """The trigger gives up at the task's own deadline; Airflow's limit comes after it."""
    now = time.time()
    _, deferral, trigger = deferred(world, poke_interval=5, hold=timedelta(minutes=10))

    assert (trigger.poll_seconds, trigger.hold_seconds) == (5, 600)
    assert now + 600 <= trigger.deadline_at < now + 660
    assert isinstance(deferral.timeout, timedelta)
    assert deferral.timeout > timedelta(seconds=600)


@pytest.mark.parametrize(
    ("soft_fail", "ending"), [(False, AirflowSensorTimeout), (True, AirflowSkipException)]
)
def test_a_deferred_wait_ends_as_the_others(
    world: World, soft_fail: bool, ending: type[Exception]
) -> None:
    """The event of its trigger is a timeout, which soft_fail makes a skip; or the reading."""
    sensor, deferral, trigger = deferred(world, soft_fail=soft_fail)
    trigger.deadline_at = trigger.not_before_at = 0.0
    timed_out = run_inline(trigger)
    world.total_lag = 0
    reached = run_inline(trigger)

    with pytest.raises(ending):
        sensor.resume_execution(deferral.method_name, {"event": timed_out}, world.context)
    result = sensor.resume_execution(deferral.method_name, {"event": reached}, world.context)
    assert result == {"total_lag": 0, "largest_partition_lag": 0}


@pytest.mark.parametrize(
    ("soft_fail", "ending"), [(False, TaskDeferralError), (True, AirflowSkipException)]
)
def test_a_trigger_that_broke_fails_the_task(
    world: World, soft_fail: bool, ending: type[Exception]
) -> None:
    """As with every sensor of Airflow; soft_fail skips."""
    with pytest.raises(ending):
        drained(soft_fail=soft_fail).resume_execution("__fail__", {"error": "x"}, world.context)


def test_a_wait_that_ends_soon_is_not_deferred(world: World) -> None:
    """The way through the triggerer would outlast the timeout."""
    world.total_lag = 7

    with pytest.raises(AirflowSensorTimeout):
        drained(deferrable=True, timeout=0.2).execute(world.context)


def test_a_hold_in_place_is_watched_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relapse between two pokes is seen, so the poke does not succeed."""
    monkeypatch.setattr(condition, "HOLD_LOOK_SECONDS", 0.01)
    lags = [{0: 0}, {0: 0}, {0: 1}]
    monkeypatch.setattr(
        kafka.KafkaHook,
        "open_lag_reader",
        lambda _: SimpleNamespace(lags=lambda *_: lags.pop(0), close=lambda: None),
    )

    assert not drained(hold=60, poke_interval=300).poke(world.context)
    assert lags == []


def test_a_broker_outage_is_waited_out(world: World) -> None:
    """A reading that failed is no drained group, and no failure before the timeout."""
    world.admin.is_down = True

    with pytest.raises(AirflowSensorTimeout, match="does not answer"):
        drained().execute(world.context)


@pytest.mark.parametrize(
    "sensor",
    [
        ConsumerLagAboveSensor(task_id="a", threshold_records=5, **NAMES),
        ConsumerLagDrainedSensor(task_id="b", **NAMES),
        ConsumerGroupStableSensor(task_id="c", group="billing"),
        ReplicasSettledSensor(task_id="d", deployment="billing"),
    ],
    ids=lambda sensor: type(sensor).__name__,
)
def test_a_missing_connection_is_no_long_wait(
    world: World, monkeypatch: pytest.MonkeyPatch, sensor: ConditionSensor
) -> None:
    """The task fails at once, with the connection's name, and may be retried."""

    def missing(*_: object) -> Any:
        raise NotReady("the connection is not defined")

    monkeypatch.setattr(kafka.KafkaHook, "settings", missing)
    monkeypatch.setattr(kube, "settings_of_cluster", missing)

    with pytest.raises(NotReady, match="not defined"):
        sensor.execute(world.context)


@pytest.mark.parametrize(
    ("kind", "threshold", "per_partition", "is_met"),
    [
        (ConsumerLagAboveSensor, 5, False, False),  # at the threshold it is not above it
        (ConsumerLagAboveSensor, 4, False, True),
        (ConsumerLagAboveSensor, 3, True, False),
        (ConsumerLagDrainedSensor, 4, False, False),
        (ConsumerLagDrainedSensor, 3, True, True),
        (ConsumerLagDrainedSensor, 2, True, False),
    ],
)
def test_the_threshold_is_of_the_total_or_of_each_partition(
    world: World, kind: Any, threshold: int, *, per_partition: bool, is_met: bool
) -> None:
    """Then the partition with the most lag decides."""
    world.lags = {0: 3, 1: 2}
    sensor = kind(**QUICK, **NAMES, threshold_records=threshold, per_partition=per_partition)

    assert bool(sensor.poke(world.context)) is is_met


@pytest.mark.parametrize(
    ("arguments", "members", "is_stable"),
    [
        ({}, {"a": [0, 1]}, True),
        ({"members": 2}, {"a": [0, 1]}, False),
        ({"members": 2}, {"a": [0], "b": [1]}, True),
        ({"topic": "orders"}, {"a": [0]}, False),
        ({"topic": "orders"}, {"a": [0], "b": [1]}, True),
        ({"topic": "orders"}, {"a": [0, 1], "b": [1]}, False),
        ({"topic": "of nobody"}, {"a": [0, 1]}, False),
        ({}, {}, False),
        ({"members": 0}, {}, True),
    ],
)
def test_a_stable_group_is_as_it_should_be(
    world: World, arguments: dict[str, Any], members: dict[str, list[int]], is_stable: bool
) -> None:
    """Members and owners count if they are asked for; an empty group only if it is to be empty."""
    group_of(world, **members)
    sensor = ConsumerGroupStableSensor(**QUICK, group="billing", **arguments)

    assert bool(sensor.poke(world.context)) is is_stable


def test_a_rebalancing_group_is_not_stable(world: World) -> None:
    """Whatever its members hold."""
    group_of(world, a=[0, 1])
    world.admin.is_rebalancing = True

    assert not ConsumerGroupStableSensor(**QUICK, group="billing").poke(world.context)


def settled(world: World, **arguments: Any) -> bool:
    """Look at the Deployment once."""
    sensor = ReplicasSettledSensor(**QUICK, deployment="billing", **arguments)
    return bool(sensor.poke(world.context))


def test_a_deployment_settles_with_its_rollout(world: World) -> None:
    """An old pod that is counted as ready is no settled Deployment, nor is one that terminates."""
    world.kube.apply(workload("Deployment", "billing") | {})
    world.kube.apply(workload("Deployment", "billing-v2"))
    assert settled(world)

    world.kube.objects["Deployment", "billing"]["status"]["updatedReplicas"] = 0
    assert not settled(world)

    world.kube.objects["Deployment", "billing"]["status"]["updatedReplicas"] = 1
    world.kube.objects["Pod", "billing-old"] = {
        "metadata": {"name": "billing-old", "labels": {"app": "billing"}}
    }
    assert not settled(world)


def test_the_number_of_replicas_may_be_bounded(world: World) -> None:
    """A Deployment at rest outside the bounds is waited for."""
    manifest = workload("Deployment", "billing")
    manifest["spec"]["replicas"] = 3
    world.kube.apply(manifest)

    assert settled(world, min_replicas=3, max_replicas=3)
    assert not settled(world, min_replicas=4)
    assert not settled(world, max_replicas=2)


def test_a_deployment_that_does_not_exist_is_named(world: World) -> None:
    """It may be created while the sensor waits; if not, the message says so."""
    sensor = ReplicasSettledSensor(**QUICK, deployment="biling")

    with pytest.raises(AirflowSensorTimeout, match="biling"):
        sensor.execute(world.context)


@pytest.mark.parametrize(
    ("kind", "arguments", "field"),
    [
        (ConsumerLagDrainedSensor, {**NAMES, "hold": -1}, "hold"),
        (ConsumerLagDrainedSensor, {**NAMES, "threshold_records": -1}, "threshold_records"),
        (ConsumerGroupStableSensor, {"group": "g", "members": -1}, "members"),
        (ReplicasSettledSensor, {"deployment": "d", "min_replicas": -1}, "min_replicas"),
        (
            ReplicasSettledSensor,
            {"deployment": "d", "min_replicas": 3, "max_replicas": 2},
            "max_replicas",
        ),
    ],
)
def test_wrong_numbers_are_found_when_the_dag_is_read(
    kind: type[ConditionSensor], arguments: dict[str, Any], field: str
) -> None:
    """The message names the task and the field."""
    with pytest.raises(WrongInput, match=f"task it: {field} = "):
        kind(task_id="it", **arguments)


def test_wrong_settings_of_the_connection_are_final(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No retry can correct them."""

    def wrong(*_: object) -> Any:
        raise WrongInput(where="c", field="namespace", value="A b", allowed="a DNS label")

    monkeypatch.setattr(kube, "settings_of_cluster", wrong)

    with pytest.raises(AirflowFailException, match="DNS label"):
        ReplicasSettledSensor(task_id="it", deployment="d").execute(world.context)
