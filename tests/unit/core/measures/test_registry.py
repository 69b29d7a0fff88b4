"""The registry of named measures: what SLOs, gate, simulator and report read."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.measures.accounting.accounting import MovedKeys
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NamedMeasure
from lagbench.core.measures.spark_measures import SparkMeasures
from lagbench.core.scenario.scenario import Slos
from lagbench.core.simulation.simulation_measures import COMPARED, SimulationMeasures

# An SLO that must hold has no number, so no measure.
CLAIMS = {"lag_falls_at_full_parallelism", "baseline_at_floor", "surplus_pods_idle"}
NEEDS_AN_OCCASION = {
    "first_event_wait_seconds",
    "action_dip_percent",
    "action_area_seconds",
    "action_recovery_seconds",
}
NOT_OF_A_RUN = {"pod_minutes_in_all", "seconds_over_slo", "settled_seconds", "watched_seconds"}


def test_no_two_measures_have_one_name_or_title() -> None:
    """Each name and each title stands for one number."""
    declared = [
        measure.name
        for field in Measures.model_fields.values()
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ()))
        for measure in getattr(kind, "named", ())
    ]

    assert sorted(declared) == sorted(NAMED)
    assert len({measure.title for measure in NAMED.values()}) == len(NAMED)


SPARK = SparkMeasures(
    trigger_seconds=2,
    batches=3,
    batch_seconds=1.5,
    batch_max_seconds=3,
    batches_over_trigger=1,
    input_rows_per_second=400,
    processed_rows_per_second=500,
    tasks=18,
    tasks_recomputed=0,
    rows_recomputed=0,
    task_seconds=20,
    executor_seconds=30,
    publish_delay_seconds=0.5,
    publish_delay_max_seconds=1,
    driver_starts=1,
)
"""Of a run whose consumer is on Spark; the spike's was a consumer group."""


@pytest.mark.parametrize("measure", NAMED.values(), ids=lambda measure: measure.name)
def test_every_measure_is_read_from_a_run(measure: NamedMeasure[Measures]) -> None:
    """On a run that measured everything each has a value, inside its interval if it has one.

    Without an idle stretch or an action those that need one have none, which is not zero.
    """
    run = quick_spike_measures()
    moved = MovedKeys(keys=9, messages=90, overtaken_keys=2, overtaken=4, overtaken_in_doubt=1)
    grown = run.accounting.model_copy(update={"moved": moved})  # measured only after a growth
    run = run.model_copy(update={"accounting": grown, "spark": SPARK})
    value = measure.read(run)

    if measure.name in NEEDS_AN_OCCASION:
        assert value is None
        return
    assert value is not None
    if measure.interval is not None and (bounds := measure.interval(run)) is not None:
        assert bounds[0] <= value <= bounds[1]


@pytest.mark.parametrize("name", sorted(set(Slos.model_fields) - CLAIMS))
def test_every_limit_is_on_a_named_measure(name: str) -> None:
    """The field of a limit in a scenario is the name of the measure that it limits."""
    assert name in NAMED


def test_the_simulator_uses_the_names_of_a_run() -> None:
    """A simulated number is a named measure of a run, or one that no run can have."""
    simulated = {field.name for field in fields(SimulationMeasures)}

    assert simulated - NOT_OF_A_RUN <= set(NAMED)
    assert {measure.name for measure in COMPARED} <= simulated


def test_a_number_is_shown_with_its_unit_and_digits() -> None:
    """The registry owns how a value reads; what was not measured is a dash."""
    drain = NAMED["drain_seconds"]

    assert drain.heading == "Lag drain, s"
    assert (drain.text(99.24), drain.number(1234.0), drain.text(None)) == ("99.2 s", "1,234.0", "–")
    assert drain.spread(5.0, 4.0, 6.26) == "5.0 (4.0 to 6.3)"
    assert drain.spread(5.01, 5.0, 5.02) == "5.0"
