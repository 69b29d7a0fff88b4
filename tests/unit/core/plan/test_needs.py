"""What a machine has to have for a cell, and what Spark needs of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lagbench.catalog.catalog import Cell, checked_cell
from lagbench.core.plan.machine_needs import cannot_carry, cores_needed
from lagbench.core.plan.plan import Plan, plan_cell
from lagbench.core.plan.spark_needs import check_spark_fit
from lagbench.errors import WrongInput


def plan_of(scenario: str, **overrides: str) -> Plan:
    """Return the plan of a scenario of the catalog with its own policy."""
    cell = checked_cell(scenario, overrides=overrides)
    return plan_cell(cell.scenario, cell.policy)


@pytest.mark.parametrize(
    ("scenario", "low", "high"),
    [
        ("quick_spike", 0.8, 1.2),  # it took one core of two
        ("lab_full_spike", 1.0, 1.7),  # 1.2 of two: pods that are behind fetch full batches
        ("spark_consumer", 0.9, 1.1),  # driver, workers and tasks beside broker and producer
    ],
)
def test_the_cores_of_a_scenario(scenario: str, low: float, high: float) -> None:
    """The rule of thumb is near what was measured, and two cores carry it."""
    assert low < cores_needed(plan_of(scenario)) < high
    assert cannot_carry(plan_of(scenario), 2, speed=0.85) == ""


@pytest.mark.parametrize(
    ("scenario", "more", "less", "cores"),
    [
        # 2 ms of wait and 3 ms of CPU are 200/s a pod: 12 pods burn 2,400 times 3 ms in a second.
        ("quick_spike", {"consumer.cpu_ms": "3"}, {"consumer.process_ms": "5"}, 7.2),
        # A millisecond of CPU for each message is a core for each 1,000/s of all that is done.
        ("own_consumer", {"consumer.cpu_ms": "1", "consumer.process_ms": "3"}, {}, None),
        ("spark_consumer", {"consumer.cpu_ms": "1", "consumer.process_ms": "3"}, {}, None),
        ("spark_consumer", {"partitions": "12"}, {}, 6 * 0.05),  # a task is 0.05 cores
    ],
)
def test_work_needs_cores(
    scenario: str, more: dict[str, str], less: dict[str, str], cores: float | None
) -> None:
    """The work of cpu_ms, and Spark's tasks, come on top."""
    with_work = plan_of(scenario, **more)
    done = min(with_work.peak_rate, with_work.capacity_per_second)

    added = cores_needed(with_work) - cores_needed(plan_of(scenario, **less))
    assert added == pytest.approx(done / 1000 if cores is None else cores)


def test_a_machine_that_lacks_cores_is_reported_how_many() -> None:
    """The text has the need, the peak and what is there; slower cores are worth less."""
    text = cannot_carry(plan_of("standard_spike"), 1)

    assert "60,000/s" in text
    assert " 1" in text.split(",")[-1]
    assert cannot_carry(plan_of("quick_spike"), 2, speed=0.6) == ""
    assert cannot_carry(plan_of("quick_spike"), 2, speed=0.25)


def test_more_load_needs_more_cores() -> None:
    """Twice the rate needs more than the rate, and less than twice of it."""
    once, twice = (
        cores_needed(plan_of("standard_spike", **{"profile.rate_per_second": rate}))
        for rate in ("3000", "6000")
    )

    assert once < twice < 2 * once


def test_the_code_of_an_own_consumer_is_not_counted() -> None:
    """Nobody knows its cost: broker and producer are left."""
    own = plan_of("own_consumer")

    assert cores_needed(own) < cores_needed(replace(own, is_own=False)) - 0.1
    assert cannot_carry(own, 1) == ""
    assert cannot_carry(own, 1, speed=0.1)


def spark_cell(**overrides: str) -> Cell:
    """Return spark_consumer with changes."""
    return checked_cell("spark_consumer", overrides=overrides)


def test_spark_fits_the_machine_that_its_scenario_names() -> None:
    """Four workers, driver and master take less than 8 GiB; the policy's ceiling is named."""
    cell = spark_cell()
    needed = plan_cell(cell.scenario, cell.policy).memory_mebibytes

    assert needed is not None
    assert 4_000 < needed < 8_192
    with pytest.raises(WrongInput, check=lambda error: error.field == "spec.maxReplicaCount"):
        check_spark_fit(cell.scenario, cell.policy, memory_mebibytes=2_000)


@pytest.mark.parametrize(
    ("field", "overrides"),
    [
        # A task is one partition: the other cores could never have work.
        (
            "cores_per_worker",
            {
                "partitions": "4",
                "consumer.concurrency": "6",
                "consumer.spark.cores_per_worker": "3",
            },
        ),
        # An executor needs a worker, and the floor of the policy has two.
        ("dynamic_allocation_min", {"consumer.spark.dynamic_allocation_min": "3"}),
    ],
)
def test_a_floor_that_spark_cannot_use_is_rejected(field: str, overrides: dict[str, str]) -> None:
    """The field is named."""
    wrong = f"consumer.spark.{field}"
    with pytest.raises(WrongInput, check=lambda error: error.field == wrong):
        spark_cell(**overrides)


@pytest.mark.parametrize(
    ("overrides", "is_warned_of"),
    [({"profile.rate_per_second": "1500", "profile.spike_mult": "2"}, True), ({}, False)],
)
def test_a_threshold_below_the_saw_is_warned_of(
    overrides: dict[str, str], is_warned_of: bool
) -> None:
    """At 1,500/s two workers' batches publish more than the policy's lagThreshold lets them."""
    warnings = plan_of("spark_consumer", **overrides).warnings

    assert any("saw" in text for text in warnings) is is_warned_of
