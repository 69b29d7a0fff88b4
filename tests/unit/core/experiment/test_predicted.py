"""What the simulator says of an experiment's pairs before they run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.experiments import experiment

from lagbench.catalog.catalog import checked_cell
from lagbench.core.experiment.experiment import Experiment
from lagbench.core.experiment.result.predicted import (
    PredictedValues,
    Simulated,
    not_simulated,
    predicted_values,
)
from lagbench.core.experiment.schedule import draw_schedule
from lagbench.core.measures.registry import NAMED
from lagbench.core.simulation.simulate import simulate

CELL = checked_cell("quick_spike", overrides={})
MEASURES = simulate(CELL.scenario, CELL.policy).measures
BOUND = {"bounds": {"flips": {"absolute": 1}}}


def simulated(made: Experiment, eager: list[int]) -> Simulated:
    """Return runs without a flip, and those of the second cell with these flips."""
    return {
        (run.pair, run.cell): replace(
            MEASURES, flips=eager[run.pair - 1] if run.cell == "eager" else 0
        )
        for run in draw_schedule(made).runs
    }


def predicted(eager: list[int]) -> PredictedValues:
    """Return the prediction of the second cell."""
    made = experiment(**BOUND)
    first, second = predicted_values(made, draw_schedule(made), simulated(made, eager))
    assert (first.cell, first.difference, first.outlook) == ("calm", None, "")
    return second


@pytest.mark.parametrize(
    ("flips", "outlook"),
    [
        ([5, 6, 5, 6, 5, 6], "beyond 1"),
        ([0, 1, 0, 0, 0, 1], "within 1"),
        ([0, 9, 0, 0, 0, 9], "undetermined at 1"),
        ([0, 9, 9, 9, 9, 9], "undetermined at 1"),  # five pairs that differ reach a p of 0.063
    ],
)
def test_the_pairs_decide_or_not(flips: list[int], outlook: str) -> None:
    """The interval and the smallest p of the pairs say what runs like these would show."""
    assert predicted(flips).outlook == outlook


def test_a_row_has_the_values_by_pair() -> None:
    """The difference has its interval; the first cell has none."""
    row = predicted([5, 6, 5, 6, 5, 6]).row

    assert row[:3] == ("Flapping, flips", "eager", "5, 6, 5, 6, 5, 6")
    assert row[3] == "+5.5 (+4.9 to +6.1)"


def test_a_shown_value_stands_beside_what_is_expected() -> None:
    """What the simulator lacks is named, not left out in silence."""
    cells = [{"name": "calm", "shows": {"flips": {"at_most": 2}, "lost": 0}}]
    made = experiment(kind="identity", cells=cells, pairs=1)
    runs = {(1, "calm"): replace(MEASURES, flips=1)}

    (found,) = predicted_values(made, draw_schedule(made), runs)

    assert found.row[2:] == ("1", "", "expected at most 2")
    assert NAMED["lost"].title in (not_simulated(made) or "")
    assert not_simulated(experiment(**BOUND)) is None
