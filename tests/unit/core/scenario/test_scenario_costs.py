"""The cost of a message as the scenario states it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lagbench.core.scenario.cost_draws import normal_quantile, process_ns
from lagbench.core.scenario.event_stream import exact_exp, exact_log, exact_power
from lagbench.core.scenario.message_costs import (
    CostPart,
    DownstreamPace,
    LognormalCost,
    MixtureCost,
    Slowdown,
)
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.shared_with_spark.event import EVENT_DTYPE, Events

LOGNORMAL = {"kind": "lognormal", "mean_ms": 20, "p99_ms": 80}
MIXTURE = {"kind": "mixture", "parts": [{"share": 0.9, "ms": 1}, {"share": 0.1, "ms": 51}]}


@pytest.mark.parametrize(
    ("settings", "mean_ms", "rate"),
    [
        ({"process_ms": 2, "concurrency": 8}, 2, 4000),
        ({"process_ms": LOGNORMAL}, 20, 50),
        ({"process_ms": MIXTURE, "concurrency": 3}, 6, 500),
        ({"process_ms": 6, "cpu_ms": 4}, 10, 100),
        ({"process_ms": 6, "cpu_ms": 4, "concurrency": 8}, 10, 250),
        ({"process_ms": 0}, 0, None),
    ],
)
def test_a_pod_does_its_slots_over_the_mean_cost_and_burns_one_core(
    settings: dict[str, Any], mean_ms: float, rate: float | None
) -> None:
    """The rate is concurrency over the mean of CPU time and wait, at most one core of CPU time."""
    found = ConsumerSettings.model_validate(settings)

    assert found.message_ms == pytest.approx(mean_ms)
    assert found.pod_rate_per_second == (rate if rate is None else pytest.approx(rate))


@pytest.mark.parametrize(
    ("settings", "rate"),
    [({}, 500), ({"kind": "own"}, None), ({"kind": "own", "process_ms": 4}, 250)],
)
def test_an_own_consumer_at_the_defaults_claims_no_rate(
    settings: dict[str, Any], rate: float | None
) -> None:
    """Its code decides what a message costs: a capacity of the defaults would be made up."""
    found = ConsumerSettings.model_validate(
        {"manifest": "mine.yaml", "accounting": "commits", **settings} if settings else {}
    )

    assert found.claimed_pod_rate_per_second == rate


def test_a_lognormal_has_the_mean_and_the_percentile_that_it_states() -> None:
    """Of the two solutions it takes the one with the smaller deviation."""
    cost = LognormalCost(kind="lognormal", mean_ms=20, p99_ms=80)

    assert math.exp(cost.mu + cost.sigma**2 / 2) == pytest.approx(20)
    assert math.exp(cost.mu + 2.3263478740408408 * cost.sigma) == pytest.approx(80)
    assert 0 < cost.sigma < 1


@pytest.mark.parametrize(
    "cost",
    [
        -1,
        60_001,
        {"mean_ms": 20},
        {"kind": "normal", "mean_ms": 20},
        {"kind": "lognormal", "mean_ms": 20},
        {"kind": "lognormal", "mean_ms": 20, "p99_ms": 20},
        {"kind": "lognormal", "mean_ms": 1, "p99_ms": 15},
        {"kind": "mixture", "parts": []},
        {"kind": "mixture", "parts": [{"share": 0.9, "ms": 1}]},
    ],
)
def test_a_cost_that_no_message_can_have_is_rejected(cost: Any) -> None:
    """Bounds hold, shares sum to 1, and a percentile fits its mean."""
    with pytest.raises(ValidationError):
        ConsumerSettings.model_validate({"process_ms": cost})


SECOND = 1_000_000_000


def seconds(*values: float) -> list[int]:
    """Return nanoseconds."""
    return [round(value * SECOND) for value in values]


def test_work_goes_on_at_the_pace_of_the_downstream() -> None:
    """Slow by 4 from 10 to 18: two seconds of work are done in these eight."""
    pace = DownstreamPace([Slowdown(10, 18, 4)])

    works = pace.work_ns(seconds(-5, 0, 10, 14, 18, 30))

    assert works.tolist() == seconds(-5, 0, 10, 11, 12, 24)
    assert pace.wall_ns(works).tolist() == seconds(-5, 0, 10, 14, 18, 30)


def test_a_write_across_an_edge_costs_the_sum_of_its_parts() -> None:
    """Two seconds of work that begin a second before it is slow by 3 end three seconds into it."""
    pace = DownstreamPace([Slowdown(10, 20, 3)])

    begun = pace.work_ns(seconds(9))

    assert pace.wall_ns(begun + 2 * SECOND).tolist() == seconds(13)


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([(90, 60, 3)], "90-60x3"),
        ([(60, 60, 3)], "60-60x3"),
        ([(60, 90, 0.5)], "1000"),
        ([(60, 90, 1001)], "1000"),
        ([(60, 90, 3), (80, 100, 2)], "overlap"),
    ],
)
def test_what_is_no_schedule_is_refused(rows: list[tuple[float, float, float]], named: str) -> None:
    """The message has the part that is wrong."""
    with pytest.raises(ValueError, match=named):
        DownstreamPace.of_rows(rows)


def test_changes_name_the_factor_from_then_on() -> None:
    """Slowdowns that touch change once at their edge."""
    pace = DownstreamPace([Slowdown(10, 20, 3), Slowdown(20, 25, 2)])

    assert list(pace.changes) == [(10, 3), (20, 2), (25, 1)]
    assert [pace.factor_at(at) for at in (9.9, 10, 19.9, 20, 25)] == [1, 3, 3, 2, 1]


@given(st.lists(st.integers(0, 86_400 * SECOND), min_size=2, max_size=20))
def test_work_never_goes_back(instants: list[int]) -> None:
    """Later instants have at least as much work behind them, and come back as they were."""
    pace = DownstreamPace([Slowdown(100, 200, 7), Slowdown(4000, 80_000, 1.5)])
    ordered = np.array(sorted(instants), dtype=np.int64)

    works = pace.work_ns(ordered)

    assert (np.diff(works) >= 0).all()
    assert np.abs(pace.wall_ns(works) - ordered).max() <= 7


MS = 1_000_000
TWENTY_MS = LognormalCost(kind="lognormal", mean_ms=20, p99_ms=80)
ONE_IN_TEN = MixtureCost(
    kind="mixture", parts=(CostPart(share=0.9, ms=1), CostPart(share=0.1, ms=51))
)
RECORDED = [9686070, 18440200, 4313254, 15888084]


def events(count: int) -> Events:
    """Return the first events of a stream, by seq alone."""
    found = np.zeros(count, EVENT_DTYPE)
    found["seq"] = np.arange(count)
    return found


def test_a_message_costs_the_same_wherever_it_is_processed() -> None:
    """Neither the batch nor the order of the messages changes a draw; the seed does."""
    all_events = events(1000)
    drawn = process_ns(TWENTY_MS, all_events, seed=3)

    assert (process_ns(TWENTY_MS, all_events[400:410], seed=3) == drawn[400:410]).all()
    assert (process_ns(TWENTY_MS, all_events[::-1], seed=3) == drawn[::-1]).all()
    assert (process_ns(TWENTY_MS, all_events, seed=4) != drawn).mean() > 0.99


def test_the_draws_of_a_seed_never_change() -> None:
    """A run with the same seed costs the same in every version and on every machine."""
    assert process_ns(TWENTY_MS, events(4), seed=11).tolist() == RECORDED


def test_draws_follow_the_distribution() -> None:
    """Mean and 99th percentile of many draws are those that the scenario states."""
    ms = process_ns(TWENTY_MS, events(200_000), seed=5) / MS

    assert ms.mean() == pytest.approx(20, rel=0.01)
    assert np.percentile(ms, 99) == pytest.approx(80, rel=0.02)


def test_a_mixture_draws_its_parts_by_their_shares() -> None:
    """One message in ten takes 51 ms, all others 1 ms."""
    found, counts = np.unique(process_ns(ONE_IN_TEN, events(100_000), seed=5), return_counts=True)

    assert found.tolist() == [1 * MS, 51 * MS]
    assert counts[1] / counts.sum() == pytest.approx(0.1, abs=0.005)


def test_no_draw_is_above_a_minute() -> None:
    """The tail of a long distribution is cut at the most that a number may be."""
    cost = LognormalCost(kind="lognormal", mean_ms=50_000, p99_ms=60_000)

    assert process_ns(cost, events(10_000), seed=1).max() == 60_000 * MS


def test_the_normal_quantile_is_exact_enough() -> None:
    """It differs from the standard library's by less than one part in a hundred million."""
    uniform = np.linspace(1e-6, 1 - 1e-6, 5001)

    expected = [NormalDist().inv_cdf(each) for each in uniform.tolist()]

    assert np.abs(normal_quantile(uniform) - expected).max() < 1e-8


PINNED = [
    "0x1.ddb680117ab12p-2",
    "0x1.31d20b7a1eecfp-2",
    "0x1.ffb9a2d5d8daep-12",
    "0x1.6f62debaff68cp-25",
]


@given(st.floats(1e-300, 1e300))
def test_log_is_within_two_units_in_the_last_place(value: float) -> None:
    """exact_log agrees with the C library to 5e-16 of the result."""
    found = float(exact_log(np.array([value]))[0])

    assert math.isclose(found, math.log(value), rel_tol=5e-16, abs_tol=1e-16)


@given(st.floats(-600, 600))
def test_exp_is_accurate_to_1e_15(value: float) -> None:
    """exact_exp agrees with the C library to 1e-15."""
    found = float(exact_exp(np.array([value]))[0])

    assert math.isclose(found, math.exp(value), rel_tol=1e-15)


def test_powers_have_the_same_bits_on_every_machine() -> None:
    """A pinned power keeps its exact bits: seeded streams depend on it."""
    found = exact_power(np.array([2.0, 3.0, 1024.5, 5e6]), -1.1)

    assert [value.hex() for value in found.tolist()] == PINNED
