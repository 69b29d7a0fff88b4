"""What the advisor says without a search, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.questions import DRAIN, P99, PRESENT, REACTION, SPIKE, question, scenario

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.core.advice.candidates import pods_for_hottest
from lagbench.core.advice.job import KEPT, Place, evaluate_job, new_job
from lagbench.core.advice.search import bounds_only
from lagbench.core.policy.policy import Policy
from lagbench.core.simulation.simulated_world import HANDOVERS, SimulatedEnvironment
from lagbench.errors import WrongInput

HOT = {"keys": {"entities": 1000, "zipf_s": 2.0}}
STATIC = {"consumer": SPIKE.consumer.model_dump() | {"static_membership": True}}


def test_the_bounds_are_the_arithmetic_of_rates_partitions_and_clocks() -> None:
    """200/s at 250/s a pod; half a sync, 2 s of start and the handover; 500 / 250 per second."""
    around = SimulatedEnvironment(start_up_seconds=2.0)

    found = {one.name: one.value for one in bounds_only(question(environment=around)).bounds}

    assert found["floor"] == 1
    assert found["ceiling"] == 4
    assert found["reaction"] == 7.5 + 2.0 + sum(HANDOVERS["cooperative"].joined) / 2
    assert found["standing_lag"] == 2.0
    assert found["loop_gain"] == 7.5
    assert found["least_value"] == 0


def test_no_other_policy_waits_less_than_the_group_with_every_pod() -> None:
    """The present one waits for longer, and drains later, with the same draw."""
    cell = checked_cell("quick_spike")
    asked = question(cell.scenario, present=cell.policy, slos={P99: 60.0, DRAIN: 90.0})

    least = [one for one in bounds_only(asked).bounds if one.name == "least_value"]
    place = Place("", cell.scenario, asked.environment, "")
    row = evaluate_job(new_job("", cell.policy.manifest, place, range(1))).rows[0]

    for one, name in zip(least, (P99, DRAIN), strict=True):
        assert (row[KEPT.index(name)] or 0) > (one.value or 0)
    assert not any(one.is_broken for one in least)


@pytest.mark.parametrize(
    ("changes", "limit", "reason"),
    [
        (HOT, 2.0, "spread its keys"),
        ({"profile": SPIKE.profile.model_dump() | {"spike_mult": 20}}, 5.0, "more partitions"),
        ({"profile": SPIKE.profile.model_dump() | {"rate_per_second": 2000}}, 5.0, "at most 4"),
    ],
    ids=["skew", "partitions", "base"],
)
def test_an_impossible_slo_has_a_cause(changes: dict[str, Any], limit: float, reason: str) -> None:
    """No policy can: the answer names what would have to change."""
    found = bounds_only(question(scenario(**changes), slos={P99: limit}))

    assert found.outcome == "no_policy"
    assert any(reason in one for one in found.reasons)


@pytest.mark.parametrize(
    ("scenarios", "slos", "changes", "field"),
    [
        ((), {"lost": 0.0}, {}, "--slo"),
        ((), {P99: 0.0}, {}, "--slo"),
        ((), {}, {}, "--slo"),
        ((SPIKE, SPIKE), None, {}, "SCENARIO"),
        ((), None, {"max_replicas": 5}, "--max"),
        ((), None, {"min_replicas": 3, "max_replicas": 2}, "--min"),
        ((), None, {"budget": 1}, "--candidates"),
        ((), None, {"kubernetes": "1.2"}, "--kubernetes"),
    ],
)
def test_contradictions_are_refused_by_one_message(
    scenarios: Any, slos: Any, changes: dict[str, Any], field: str
) -> None:
    """Nothing is simulated."""
    with pytest.raises(WrongInput) as caught:
        bounds_only(question(*scenarios, slos=slos, **changes))

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        (question(scenario(**STATIC)), "static_membership"),
        (question(load_scenario("lab_growth")), "grow_partitions"),
        (question(load_scenario("spark_consumer")), "spark"),
        (question(load_scenario("lab_poison")), "poison"),
        (question(load_scenario("lab_two_groups")), "second_group"),
        (question(errors={}), P99),
        (question(scenario(consumer={"process_ms": 0})), "process_ms"),
    ],
    ids=["static", "growth", "spark", "poison", "second", "residuals", "cost"],
)
def test_what_the_simulator_cannot_promise_is_named(asked: Any, word: str) -> None:
    """Not enough data instead of a number."""
    found = bounds_only(asked)

    assert found.outcome == "not_enough_data"
    assert any(word in reason for reason in found.reasons)


def test_flips_need_no_residuals() -> None:
    """They are judged as simulated."""
    assert bounds_only(question(slos={"flips": 0.0}, errors={})).outcome == "advice"


def test_the_pods_that_the_hottest_partition_needs() -> None:
    """Even keys: two pods do 500/s; a hot key is more than any number of pods can read."""
    assert pods_for_hottest(SPIKE, 400) == 2
    assert pods_for_hottest(scenario(**HOT), 800) is None


def test_a_policy_on_cpu_has_no_loop_on_lag() -> None:
    """Its bounds are left out, not zero."""
    manifest = {**PRESENT, "spec": {**PRESENT["spec"]}}  # type: ignore[dict-item]
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    manifest["spec"]["triggers"] = [cpu]  # type: ignore[index]

    found = bounds_only(question(present=Policy.read(manifest, where="cpu"), slos={REACTION: 60}))

    assert not {"loop_gain", "standing_lag"} & {one.name for one in found.bounds}
