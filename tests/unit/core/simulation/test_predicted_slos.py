"""What a simulation says of the SLOs: the whole range decides, and nothing is judged unasked."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from lagbench.catalog.catalog import checked_cell
from lagbench.core.simulation.predicted_slos import predicted_slos, slos_over_seeds
from lagbench.core.simulation.simulation_measures import (
    Simulation,
    SimulationMeasures,
    Spread,
    Timeline,
    spreads,
)

NOTHING_ASKED = {
    f"slos.{name}": "null"
    for name in ("reaction_seconds", "drain_seconds", "time_lag_p99_seconds", "flips")
}
WATCHED = Spread(985.0, 985.0, 985.0)  # 900 s after quick_spike's stream of 85 s


@pytest.mark.parametrize(
    ("name", "limit", "found", "status"),
    [
        ("drain_seconds", "60", Spread(50, 40, 60), "pass"),
        ("drain_seconds", "60", Spread(59, 58, 62), "undetermined"),
        ("drain_seconds", "60", Spread(62, 61, 63), "fail"),
        # Not drained with some seeds, or with any, within 900 s.
        ("drain_seconds", "60", Spread(50, 40, 59, missing=1), "undetermined"),
        ("drain_seconds", "60", Spread(None, None, None, missing=4), "fail"),
        ("drain_seconds", "950", Spread(None, None, None, missing=4), "undetermined"),
        ("time_lag_p99_seconds", "30", Spread(62, 61, 63, missing=1), "fail"),
        # No pod came, because none was due.
        ("reaction_seconds", "30", Spread(None, None, None, missing=4), "pass"),
        ("reaction_seconds", "30", Spread(31, 31, 31, missing=1), "undetermined"),
        ("flips", "0", Spread(0, 0, 2), "undetermined"),
        ("flips", "{limit: 0, level: warn}", Spread(2, 2, 2), "warn"),
    ],
)
def test_the_range_is_the_interval_of_the_value(
    name: str, limit: str, found: Spread, status: str
) -> None:
    """Alone the one SLO that is asked has an outcome."""
    asked: dict[str, Any] = {**NOTHING_ASKED, f"slos.{name}": limit}
    cell = checked_cell("quick_spike", overrides=asked)
    ranges = {field.name: Spread(1, 1, 1) for field in fields(SimulationMeasures)}

    given = {**ranges, "watched_seconds": WATCHED, name: found}
    outcomes = predicted_slos(cell.scenario, cell.policy.limits, given)

    assert [(slo.name, slo.status) for slo in outcomes] == [(name, status)]


def test_without_a_spike_there_is_no_drain() -> None:
    """The limit stays for the run, which finds no occasion for it."""
    cell = checked_cell("steady", overrides=NOTHING_ASKED | {"slos.drain_seconds": "9"})
    ranges = {field.name: Spread(1, 1, 1) for field in fields(SimulationMeasures)}

    assert predicted_slos(cell.scenario, cell.policy.limits, ranges) == ()


@pytest.mark.parametrize(
    ("values", "allowed", "status", "broken"),
    [
        ((50, 59, 60), 0, "pass", []),
        ((50, 61, 59), 0, "fail", [2]),
        ((50, 61, 59), 1, "pass", [2]),
        ((62, 61, None), 2, "fail", [1, 2, 3]),  # not drained within 900 s
    ],
)
def test_each_seed_is_judged_by_the_rule_of_the_range(
    values: tuple[float | None, ...], allowed: int, status: str, broken: list[int]
) -> None:
    """More seeds than are allowed break it; the median and the range are those of the range."""
    cell = checked_cell("quick_spike", overrides=NOTHING_ASKED | {"slos.drain_seconds": "60"})
    plain: dict[str, Any] = {field.name: 1 for field in fields(SimulationMeasures)}
    line = Timeline(*[np.zeros(0)] * 5)
    found = [
        Simulation(
            "s",
            "p",
            seed,
            30,
            SimulationMeasures(**{**plain, "drain_seconds": value, "watched_seconds": 985.0}),
            line,
            (np.zeros(0), np.zeros(0)),
        )
        for seed, value in enumerate(values, start=1)
    ]
    (drain,) = slos_over_seeds(cell.scenario, cell.policy.limits, found, allowed=allowed)
    (of_range,) = predicted_slos(cell.scenario, cell.policy.limits, spreads(found))

    assert (drain.slo.status, [one.seed for one in drain.broken]) == (status, broken)
    assert (drain.slo.value, drain.slo.high) == (of_range.value, of_range.high)
