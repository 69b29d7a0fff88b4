"""The sensors and the check for any Dag, on a real broker and localkube."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSensorTimeout
from tests.integration.guarded_deployment import (
    GROUP,
    LAG,
    MESSAGES,
    PARTITIONS,
    Shop,
    running_shop,
    settled,
)

from lagbench.embedded.broker import Broker
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator
from lagbench_airflow.sensors.consumer_lag import ConsumerLagAboveSensor, ConsumerLagDrainedSensor

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]


@pytest.fixture(scope="module")
def shop(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Provide the shop."""
    with running_shop(broker, tmp_path_factory.mktemp("localkube")) as shop:
        yield shop


def test_lag_without_a_consumer_is_above(shop: Shop) -> None:
    """A group that never committed has all kept messages before it, in each partition."""
    above = ConsumerLagAboveSensor(task_id="above", threshold_records=MESSAGES - 1, **LAG)
    assert above.execute({}) == {
        "total_lag": MESSAGES,
        "largest_partition_lag": MESSAGES // PARTITIONS,
    }

    not_drained = {**LAG, "timeout": 0.1}
    with pytest.raises(AirflowSensorTimeout, match=f"'total_lag': {MESSAGES}"):
        ConsumerLagDrainedSensor(task_id="drained", **not_drained).execute({})


@pytest.mark.smoke
def test_consumers_drain_the_lag_and_settle(shop: Shop) -> None:
    """Pods, group and lag come to rest, and each sensor says with what."""
    shop.scale(2)

    stable = shop.await_members(2, hold=0.5)
    drained = ConsumerLagDrainedSensor(task_id="drained", hold=0.5, **LAG).execute({})

    assert (stable["state"], stable["owned_partitions"]) == ("STABLE", PARTITIONS)
    assert drained == {"total_lag": 0, "largest_partition_lag": 0}
    assert settled()["existing"] == 2


def watch(**changes: Any) -> Any:
    """Watch the group in a thread until its window ends; return the result or the failure."""
    first_look = threading.Event()

    def push(*, key: str, value: float) -> None:
        first_look.set()

    arguments = {"group": GROUP, "window": 5, "max_rebalances": 0, "poke_interval": 0.2}
    arguments["longest_gap"] = 120  # the machine may hold up who looks
    operator = RebalanceCountCheckOperator(task_id="watch", **{**arguments, **changes})
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(operator.execute({"ti": SimpleNamespace(xcom_push=push)}))
        except AirflowFailException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert first_look.wait(180)
    return thread, found


def test_a_rebalance_is_counted_while_it_is_watched(shop: Shop) -> None:
    """A pod that leaves breaks a claim of none; a quiet window holds it."""
    shop.scale(2)
    shop.await_members(2, hold=2)

    quiet, result = watch()
    quiet.join(300)
    assert result[0]["rebalances"] == 0

    moved, failure = watch(window=600)  # it ends with the first rebalance
    shop.scale(1)
    moved.join(300)
    assert isinstance(failure[0], AirflowFailException)
    assert re.search("1 rebalances .* 0 ", str(failure[0]))


def test_a_group_that_does_not_exist_proves_nothing(shop: Shop) -> None:
    """A typo in its name is no quiet group."""
    thread, failure = watch(group="biling", window=0.5)
    thread.join(300)

    assert "had no member" in str(failure[0])
