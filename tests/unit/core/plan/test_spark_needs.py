"""What a consumer on Spark needs, and what is rejected before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.plan.plan import plan_cell
from lagbench.core.plan.spark_needs import check_spark_fit, spark_mebibytes
from lagbench.errors import WrongInput


def _cell(**overrides: Any) -> Any:
    texts = {name.replace("__", "."): str(value) for name, value in overrides.items()}
    return checked_cell("spark_consumer", overrides=texts)


def test_the_catalogs_scenario_fits_the_machine_that_it_names() -> None:
    """Four workers, driver and master take less than 8 GiB, and the plan says how much."""
    cell = _cell()
    needed = spark_mebibytes(cell.scenario.consumer, 4)

    assert needed is not None
    assert 4_000 < needed < 8_192
    assert plan_cell(cell.scenario, cell.policy).memory_mebibytes == needed


def test_more_workers_than_memory_are_rejected() -> None:
    """The policy's ceiling is named."""
    cell = _cell()

    with pytest.raises(WrongInput, check=lambda error: error.field == "spec.maxReplicaCount"):
        check_spark_fit(cell.scenario, cell.policy, memory_mebibytes=2_000)


def test_a_floor_with_more_cores_than_partitions_is_rejected() -> None:
    """A task is one partition: the others could never have work."""
    wrong = "consumer.spark.cores_per_worker"
    with pytest.raises(WrongInput, check=lambda error: error.field == wrong):
        _cell(partitions=4, consumer__concurrency=6, consumer__spark__cores_per_worker=3)


def test_a_threshold_below_the_saw_is_warned_of() -> None:
    """At 1,500/s two workers' batches publish more than the policy's lagThreshold lets them."""
    cell = _cell(profile__rate_per_second=1500, profile__spike_mult=2)
    warnings = plan_cell(cell.scenario, cell.policy).warnings

    assert any("saw" in text for text in warnings)
    cell = _cell()
    assert not any("saw" in text for text in plan_cell(cell.scenario, cell.policy).warnings)


def test_more_executors_than_workers_are_rejected() -> None:
    """An executor needs a worker, and the floor of the policy has two."""
    wrong = "consumer.spark.dynamic_allocation_min"
    with pytest.raises(WrongInput, check=lambda error: error.field == wrong):
        _cell(consumer__spark__dynamic_allocation_min=3)
