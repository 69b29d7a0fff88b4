"""The range of a real run that follows from draws and from the residuals of kept runs."""

from __future__ import annotations

import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.simulation.model_error import ModelError, error_of
from lagbench.core.simulation.prediction import PHASE_ERROR_SECONDS, Prediction, draws, predict
from lagbench.core.simulation.simulation_measures import spreads


@pytest.mark.parametrize(
    ("is_relative", "simulated", "interval"),
    [
        (False, (10.0,), (8.0, 11.0)),
        (False, (1.0, 20.0, 7.0), (0.0, 21.0)),  # nothing is below 0
        (True, (100.0, 200.0), (80.0, 400.0)),
    ],
)
def test_the_range_is_that_of_the_draws_widened_by_the_residuals(
    *, is_relative: bool, simulated: tuple[float, ...], interval: tuple[float, float]
) -> None:
    """In the measure's unit, or as a share of each end."""
    scale = (-0.2, 1.0) if is_relative else (-2.0, 1.0)
    error = ModelError(40, is_relative, 0.0, -1.0, 1.0, *scale)

    assert error.interval(*simulated) == pytest.approx(interval)


def test_a_prediction_has_the_range_of_real_runs_and_an_old_one_loads() -> None:
    """Of peak lag; without a word on the range it is that of the draws."""
    cell = checked_cell("hello")
    found = predict(cell.scenario, cell.policy, phases=2)
    error = error_of("peak_lag_records")
    drawn = spreads(draws(cell.scenario, cell.policy, hpa_sync_at_seconds=None, phases=2))
    lag, of_draws = found.measures["peak_lag_records"], drawn["peak_lag_records"]

    assert error is not None
    assert (lag.low, lag.high) == error.interval(of_draws.low or 0.0, of_draws.high or 0.0)
    assert found.range_share == 0.9
    old = Prediction.model_validate(found.model_dump(mode="json", exclude={"range_share"}))
    assert old.range_share is None


def test_a_sync_beside_the_crossing_is_drawn_on_both_sides() -> None:
    """A known phase that decides about a whole period gives both reactions, not one of them."""
    cell = checked_cell("lab_spike", policy="lab-lag")
    reactions = {
        round(one.measures.reaction_seconds or 0.0, -1)
        for one in draws(cell.scenario, cell.policy, hpa_sync_at_seconds=0.7, phases=8)
    }

    assert PHASE_ERROR_SECONDS < 1.0
    assert reactions == {0.0, 20.0}
