"""What a machine has to have for a cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.plan.machine_needs import cannot_carry, cores_needed
from lagbench.core.plan.plan import Plan, plan_cell


def plan_of(scenario: str, **overrides: str) -> Plan:
    """Return the plan of a scenario of the catalog with its own policy."""
    cell = checked_cell(scenario, overrides=overrides)
    return plan_cell(cell.scenario, cell.policy)


def test_two_cores_carry_the_default_scenario() -> None:
    """quick_spike took one core of two."""
    assert 0.8 < cores_needed(plan_of("quick_spike")) < 1.2
    assert cannot_carry(plan_of("quick_spike"), 2) == ""


def test_a_machine_that_lacks_cores_is_reported_how_many() -> None:
    """The text has the need, the peak and what is there."""
    text = cannot_carry(plan_of("standard_spike"), 1)

    assert "60,000/s" in text
    assert " 1" in text.split(",")[-1]


def test_two_cores_carry_the_full_size() -> None:
    """Pods that are behind fetch full batches: lab_full_spike took 1.2 of two cores."""
    assert 1.0 < cores_needed(plan_of("lab_full_spike")) < 1.7
    assert cannot_carry(plan_of("lab_full_spike"), 2, speed=0.85) == ""


def test_slower_cores_are_worth_less() -> None:
    """Two cores of a quarter of the speed are half a core."""
    assert cannot_carry(plan_of("quick_spike"), 2, speed=0.6) == ""
    assert cannot_carry(plan_of("quick_spike"), 2, speed=0.25)


def test_the_work_of_cpu_ms_needs_cores() -> None:
    """2 ms of wait and 3 ms of CPU are 200/s a pod: 12 pods burn 2,400 times 3 ms in a second."""
    with_work = plan_of("quick_spike", **{"consumer.cpu_ms": "3"})
    without = plan_of("quick_spike", **{"consumer.process_ms": "5"})

    assert with_work.capacity_per_second == without.capacity_per_second == 2400
    assert cores_needed(with_work) - cores_needed(without) == pytest.approx(7.2)


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


def test_the_cpu_ms_of_an_own_consumer_is_its_users_claim() -> None:
    """A millisecond of CPU for each message is a core for each 1,000/s."""
    told = plan_of("own_consumer", **{"consumer.cpu_ms": "1", "consumer.process_ms": "3"})
    done = min(told.peak_rate, told.capacity_per_second)

    added = cores_needed(told) - cores_needed(plan_of("own_consumer"))
    assert added == pytest.approx(done / 1000)


def test_the_jvms_of_spark_need_cores() -> None:
    """Driver, workers and tasks count beside broker and producer; a task more is 0.05 cores."""
    plan = plan_of("spark_consumer")
    more = plan_of("spark_consumer", partitions="12")

    assert plan.spark_cores == pytest.approx(0.49)
    assert 0.9 < cores_needed(plan) < 1.1
    assert cores_needed(more) - cores_needed(plan) == pytest.approx(6 * 0.05)


def test_the_work_of_tasks_comes_on_top() -> None:
    """A millisecond of CPU for each message is a core for each 1,000/s, as for the stand-in."""
    plan = plan_of("spark_consumer", **{"consumer.cpu_ms": "1", "consumer.process_ms": "3"})
    done = min(plan.peak_rate, plan.capacity_per_second)

    assert cores_needed(plan) - cores_needed(plan_of("spark_consumer")) == pytest.approx(
        done / 1000
    )
