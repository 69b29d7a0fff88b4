"""What the simulator predicts of a cell."""

from __future__ import annotations

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.catalog.catalog import checked_cell
from lagbench.core.scenario.profiles import Stage, StagesProfile
from lagbench.core.simulation.prediction import (
    PHASES,
    Prediction,
    expected_run_seconds,
    predict,
    residuals,
)


def predicted(scenario: str, policy: str | None = None, **overrides: str) -> Prediction:
    """Return the prediction of a catalog scenario."""
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    cell = checked_cell(scenario, policy=policy, overrides=dotted)
    return predict(cell.scenario, cell.policy)


def test_the_range_over_the_phases_holds_what_quick_spike_was_measured_at() -> None:
    """Two real runs: peak lag 119,696 and 118,551 messages, drain 95.9 s, reaction 13.3 s."""
    of = predicted("quick_spike").measures
    measured = {
        "peak_lag_records": (118_551, 119_696),
        "drain_seconds": (95.9,),
        "reaction_seconds": (13.3,),
    }

    for name, values in measured.items():
        assert (of[name].low or 0) < min(values)
        assert max(values) < (of[name].high or 0)


def test_a_known_phase_leaves_little_of_the_range() -> None:
    """With the HPA's sync at 9 s the peak is one number, except for the pods' start-up times."""
    cell = checked_cell("quick_spike")

    found = predict(cell.scenario, cell.policy, hpa_sync_at_seconds=9.0)

    lag = found.measures["peak_lag_records"]
    assert found.hpa_sync_at_seconds == 9.0
    assert (lag.high or 0) - (lag.low or 0) < 2_000


def test_a_scenario_that_fixes_the_phase_has_that_phase() -> None:
    """It is predicted as if the run had recorded it."""
    free = checked_cell("quick_spike")
    fixed = checked_cell("quick_spike", overrides={"hpa_sync_at_seconds": "9"})

    known = predict(free.scenario, free.policy, hpa_sync_at_seconds=9.0)
    assert predict(fixed.scenario, fixed.policy) == known


def test_the_same_cell_gives_the_same_prediction() -> None:
    """Nothing in it is drawn by a clock."""
    assert predicted("bursty") == predicted("bursty")


def test_a_steady_load_has_neither_reaction_nor_drain() -> None:
    """Without a spike no phase has a value, and none is invented."""
    of = predicted("steady").measures

    assert (of["reaction_seconds"].median, of["reaction_seconds"].missing) == (None, PHASES)
    assert of["drain_seconds"].median is None
    assert of["max_replicas"].high == 2


def test_two_pods_that_do_not_see_lag_gain_what_they_cannot_do() -> None:
    """6,000/s against 1,000/s for 60 s leave 300,000 messages."""
    lag = predicted("quick_spike", "cpu-only").measures["peak_lag_records"]

    assert (lag.high or 0) <= 300_000 * 1.02


def test_a_backlog_that_cannot_drain_has_no_drain() -> None:
    """At a minute a message no phase drains."""
    drain = predicted("quick_spike", consumer__process_ms="60000").measures["drain_seconds"]

    assert (drain.median, drain.missing) == (None, PHASES)


def test_a_residual_is_measured_minus_predicted() -> None:
    """Against the median; what was not measured has none."""
    found = {row.name: row for row in residuals(predicted("quick_spike"), quick_spike_measures())}

    for row in found.values():
        if row.measured is None or row.predicted.median is None:
            assert row.residual is None
        else:
            assert row.residual == pytest.approx(row.measured - row.predicted.median)


def test_a_long_drain_is_watched_to_its_end() -> None:
    """A run that waits two hours for its drain has a prediction of it."""
    short = predicted("lab_spike").watched_seconds
    long = predicted("lab_spike", timeouts__drain_seconds="7200").watched_seconds

    assert short == 50 + 900
    assert long == 50 + 7200 + 300


def test_the_accounting_of_millions_takes_its_time() -> None:
    """Each million messages adds nine seconds to the run."""
    cell = checked_cell("steady", overrides={"tail": "none"})
    load = cell.scenario.profile
    made = predict(cell.scenario, cell.policy)
    ten = cell.scenario.model_copy(
        update={"profile": load.model_copy(update={"rate_per_second": 10 * load.rate_per_second})}
    )
    more = 9 * load.rate_per_second * load.duration_seconds

    assert expected_run_seconds(ten, made, started_replicas=2) - expected_run_seconds(
        cell.scenario, made, started_replicas=2
    ) == pytest.approx(9e-6 * more)


@pytest.mark.parametrize("tail", ["until_settled", "none"])
def test_a_load_that_marks_no_spike_is_predicted_as_one_that_marks_it(tail: str) -> None:
    """The rule that finds the load steps of the plan also finds those of the prediction."""
    cell = checked_cell("quick_spike", overrides={"tail": tail})

    def of(mark: bool | None) -> tuple[Prediction, float]:
        stages = ((15, 600, None), (60, 6000, mark), (10, 600, None))
        profile = StagesProfile(
            kind="stages",
            stages=tuple(Stage(seconds=s, rate_per_second=r, is_spike=m) for s, r, m in stages),
        )
        scenario = cell.scenario.model_copy(update={"profile": profile})
        found = predict(scenario, cell.policy)
        return found, expected_run_seconds(scenario, found, started_replicas=2)

    assert of(None) == of(mark=True)
    assert of(None)[0].measures["drain_seconds"].missing == 0
