"""What each message costs, drawn by its identity."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from lagbench.core.scenario.process_cost import CostPart, LognormalCost, MixtureCost
from lagbench.core.scenario.stream.cost_draws import normal_quantile, process_ns
from lagbench.shared_with_spark.event import EVENT_DTYPE, Events

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
