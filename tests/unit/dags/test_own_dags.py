"""The example Dag in the docs, and what the docs say of its sensors."""

from __future__ import annotations

import inspect
import itertools

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.project import PROJECT_ROOT

from airflow.dag_processing.dagbag import DagBag  # isort: skip
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator  # isort: skip
from lagbench_airflow.sensors.condition_sensor import ConditionSensor  # isort: skip
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor  # isort: skip
from lagbench_airflow.sensors.consumer_lag import (  # isort: skip
    ConsumerLagAboveSensor,
    ConsumerLagDrainedSensor,
)
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor  # isort: skip

PUBLIC = [
    ConditionSensor,
    ConsumerLagAboveSensor,
    ConsumerLagDrainedSensor,
    ConsumerGroupStableSensor,
    ReplicasSettledSensor,
    RebalanceCountCheckOperator,
]
GUARD = ["lag_drained_before", "is_watched", "restart", "replicas_settled", "group_stable"]


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """Return the parsed examples."""
    return DagBag(str(PROJECT_ROOT / "docs" / "examples"))


def test_the_example_guards_before_during_and_after(bag: DagBag) -> None:
    """It loads as it is, and the watch runs beside the change that it watches."""
    assert bag.import_errors == {}
    dag = bag.dags["guard_deployment"]

    for before, after in itertools.pairwise([*GUARD, "lag_drained_after"]):
        assert dag.get_task(after).upstream_task_ids == {before}
    assert dag.get_task("rebalances_during").upstream_task_ids == {"lag_drained_before"}
    assert dag.get_task("rebalances_during").downstream_task_ids == set()


def test_the_bench_does_not_load_the_example() -> None:
    """Its folder of Dags does not hold it."""
    assert list((PROJECT_ROOT / "dags").rglob("guard_deployment*")) == []


@pytest.mark.parametrize("public", PUBLIC)
def test_the_docs_name_every_parameter(public: type) -> None:
    """A parameter that is added or renamed is in docs/own-dags.md."""
    text = (PROJECT_ROOT / "docs" / "own-dags.md").read_text()
    parameters = [
        name
        for name, parameter in inspect.signature(public.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]

    assert parameters
    assert [name for name in parameters if f"`{name}`" not in text] == []
