"""The sensors for any Dag: Airflow's own arguments, without a run folder."""

from __future__ import annotations

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, timezone
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
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator
from lagbench_airflow.operators.run_spark_consumer import RunSparkConsumerOperator
from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.consumer_lag import ConsumerLagAboveSensor, ConsumerLagDrainedSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor
from lagbench_airflow.triggers import condition
from lagbench_airflow.triggers.condition import ConditionTrigger, run_inline

NAMES = {"topic": "orders", "group": "billing"}
QUICK = {"task_id": "it", "poke_interval": 0.01, "timeout": 0.1}
NO_LAG = {"total_lag": 0, "largest_partition_lag": 0}
SOFT = pytest.mark.parametrize(
    ("soft_fail", "ending"), [(False, AirflowSensorTimeout), (True, AirflowSkipException)]
)


def drained(**changes: Any) -> ConsumerLagDrainedSensor:
    """Return a sensor that gives up after 0.1 s."""
    return ConsumerLagDrainedSensor(**{**QUICK, **NAMES, **changes})


@SOFT
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_timeout_is_final_and_says_what_was_seen(
    world: World, deferrable: bool, soft_fail: bool, ending: type[Exception]
) -> None:
    """A state that is there is returned. A wait that ends soon is not deferred."""
    sensor = drained(deferrable=deferrable, soft_fail=soft_fail)
    assert sensor.execute(world.context) == NO_LAG
    world.total_lag = 7

    with pytest.raises(ending, match=None if soft_fail else "'total_lag': 7"):
        sensor.execute(world.context)


def test_reschedule_gives_the_worker_back(world: World) -> None:
    """Between two looks the task holds no slot; the timeout counts from the first one."""
    world.total_lag = 7
    sensor = drained(mode="reschedule", poke_interval=30, timeout=60)
    before = timezone.utcnow()

    def since(seconds: float) -> Any:
        first = timezone.utcnow() - timedelta(seconds=seconds)
        return {"ti": SimpleNamespace(get_first_reschedule_date=lambda _: first)}

    with pytest.raises(AirflowRescheduleException) as again:
        sensor.execute(since(1))
    assert again.value.reschedule_date >= before + timedelta(seconds=30)
    with pytest.raises(AirflowSensorTimeout):
        sensor.execute(since(61))


@SOFT
def test_a_deferred_wait_ends_as_the_others(
    world: World, soft_fail: bool, ending: type[Exception]
) -> None:
    """With the task's own deadline, interval and hold; Airflow's limit comes after it."""
    world.total_lag, now = 7, time.time()
    waits = {"poke_interval": 5, "hold": timedelta(minutes=10), "timeout": 600}
    sensor = drained(deferrable=True, soft_fail=soft_fail, **waits)
    with pytest.raises(TaskDeferred) as deferral:
        sensor.execute(world.context)
    trigger, limit = deferral.value.trigger, deferral.value.timeout
    assert isinstance(trigger, ConditionTrigger)
    assert (trigger.poll_seconds, trigger.hold_seconds) == (5, 600)
    assert now + 600 <= trigger.deadline_at < now + 660
    assert isinstance(limit, timedelta)
    assert limit > timedelta(seconds=600)

    trigger.deadline_at = trigger.not_before_at = trigger.hold_seconds = 0.0
    timed_out = run_inline(trigger)
    world.total_lag = 0
    reached = run_inline(trigger)
    method = deferral.value.method_name
    with pytest.raises(ending):
        sensor.resume_execution(method, {"event": timed_out}, world.context)
    assert sensor.resume_execution(method, {"event": reached}, world.context) == NO_LAG
    with pytest.raises(AirflowSkipException if soft_fail else TaskDeferralError):
        sensor.resume_execution("__fail__", {"error": "x"}, world.context)


def test_a_hold_in_place_is_watched_to_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relapse between two pokes is seen, so the poke does not succeed."""
    monkeypatch.setattr(condition, "HOLD_LOOK_SECONDS", 0.01)
    lags = [{0: 0}, {0: 0}, {0: 1}]
    reader = SimpleNamespace(lags=lambda *_: lags.pop(0), close=lambda: None)
    monkeypatch.setattr(kafka.KafkaHook, "open_lag_reader", lambda _: reader)

    assert not drained(hold=60, poke_interval=300).poke(world.context)
    assert lags == []


SENSORS: list[ConditionSensor] = [
    ConsumerLagAboveSensor(task_id="a", threshold_records=5, **NAMES),
    ConsumerLagDrainedSensor(task_id="b", **NAMES),
    ConsumerGroupStableSensor(task_id="c", group="billing"),
    ReplicasSettledSensor(task_id="d", deployment="billing"),
]


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: type(sensor).__name__)
def test_a_missing_connection_is_no_long_wait(
    world: World, monkeypatch: pytest.MonkeyPatch, sensor: ConditionSensor
) -> None:
    """The task fails at once and may be retried; wrong settings of it are final."""
    problems: list[Exception] = [
        WrongInput(where="c", field="namespace", value="A b", allowed="a DNS label"),
        NotReady("the connection is not defined"),
    ]

    def fail(*_: object) -> Any:
        raise problems.pop()

    monkeypatch.setattr(kafka.KafkaHook, "settings", fail)
    monkeypatch.setattr(kube, "settings_of_cluster", fail)

    with pytest.raises(NotReady, match="not defined"):
        sensor.execute(world.context)
    with pytest.raises(AirflowFailException, match="DNS label"):
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
    """Members and owners count if they are asked for; one that rebalances never is."""
    world.admin.topics["orders"] = {0: 0, 1: 0}
    held = {name: [("orders", number) for number in owned] for name, owned in members.items()}
    world.admin.groups["billing"] = held
    sensor = ConsumerGroupStableSensor(**QUICK, group="billing", **arguments)

    assert bool(sensor.poke(world.context)) is is_stable
    world.admin.is_rebalancing = True
    assert not members or not sensor.poke(world.context)


def test_a_deployment_settles_with_its_rollout(world: World) -> None:
    """Within the bounds; neither an old pod that is ready nor one that terminates is settled."""

    def settled(**arguments: Any) -> bool:
        sensor = ReplicasSettledSensor(**QUICK, deployment="billing", **arguments)
        return bool(sensor.poke(world.context))

    manifest = workload("Deployment", "billing")
    manifest["spec"]["replicas"] = 3
    world.kube.apply(manifest)
    world.kube.apply(workload("Deployment", "billing-v2"))
    assert settled(min_replicas=3, max_replicas=3)
    assert not settled(min_replicas=4)
    assert not settled(max_replicas=2)

    status = world.kube.objects["Deployment", "billing"]["status"]
    status["updatedReplicas"] = 0
    assert not settled()
    status["updatedReplicas"] = 3
    assert settled()
    metadata = {"name": "billing-old", "labels": {"app": "billing"}}
    world.kube.objects["Pod", "billing-old"] = {"metadata": metadata}
    assert not settled()
    with pytest.raises(AirflowSensorTimeout, match="biling"):  # one that is not there is named
        ReplicasSettledSensor(**QUICK, deployment="biling").execute(world.context)


@pytest.mark.parametrize(
    ("kind", "arguments", "field"),
    [
        (ConsumerLagDrainedSensor, {**NAMES, "hold": -1}, "hold"),
        (ConsumerLagDrainedSensor, {**NAMES, "threshold_records": -1}, "threshold_records"),
        (ConsumerGroupStableSensor, {"group": "g", "members": -1}, "members"),
        (ReplicasSettledSensor, {"deployment": "d", "min_replicas": -1}, "min_replicas"),
        (ReplicasSettledSensor, {"deployment": "d", "min_replicas": 3, "max_replicas": 2}, "max_"),
    ],
)
def test_wrong_numbers_are_found_when_the_dag_is_read(
    kind: type[ConditionSensor], arguments: dict[str, Any], field: str
) -> None:
    """The message names the task and the field."""
    with pytest.raises(WrongInput, match=f"task it: {field}"):
        kind(task_id="it", **arguments)


NUMBERS = [
    (ConsumerLagAboveSensor, NAMES, "threshold_records"),
    (ConsumerLagDrainedSensor, {**NAMES, "threshold_records": 1}, "hold"),
    (ConsumerGroupStableSensor, {"group": "g"}, "members"),
    (ReplicasSettledSensor, {"deployment": "d"}, "min_replicas"),
    (ReplicasSettledSensor, {"deployment": "d"}, "max_replicas"),
    (RunSparkConsumerOperator, NAMES, "replicas"),
    (RebalanceCountCheckOperator, {"group": "g", "window": 60}, "max_rebalances"),
    (RebalanceCountCheckOperator, {"group": "g", "max_rebalances": 1}, "window"),
]


@pytest.mark.parametrize(("kind", "arguments", "field"), NUMBERS)
def test_a_number_may_come_from_a_param_or_a_task(
    kind: type[Any], arguments: dict[str, Any], field: str
) -> None:
    """A template is a number after it is rendered, else the task fails without a retry."""

    def rendered(value: Any) -> Any:
        task = kind(task_id="it", **{**arguments, field: "{{ params.x }}"})
        task.render_template_fields({"params": {"x": value}})
        task.pre_execute({})
        return getattr(task, field)

    assert [rendered(value) for value in (7, "7", 7.0, "7.0")] == [7, 7, 7, 7]
    for wrong in (-1, "many", "nan"):
        with pytest.raises(AirflowFailException, match=f"task it: {field}"):
            rendered(wrong)

    with DAG("d", schedule=None):
        before = EmptyOperator(task_id="before")
        task = kind(task_id="it", **{**arguments, field: before.output})
    assert task.upstream_task_ids == {"before"}


def test_rendered_bounds_are_compared() -> None:
    """A most below the least is found then, too."""
    task = ReplicasSettledSensor(
        task_id="it", deployment="d", min_replicas="{{ 3 }}", max_replicas="{{ 2 }}"
    )
    task.render_template_fields({})
    with pytest.raises(AirflowFailException, match="task it: max_replicas"):
        task.pre_execute({})
