"""A measured load as a trace: steps, gaps, skew, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import yaml

from lagbench.core.scenario.measured_load import (
    MeasuredLoad,
    keys_of_shares,
    load_of_offsets,
    load_of_series,
    replay_text,
    require_trace,
    step_count,
    trace_text,
)
from lagbench.core.scenario.profiles import trace_points
from lagbench.errors import WrongInput

START = 1_790_000_000
NAN = math.nan


def load(*rates: float, step: int = 10) -> MeasuredLoad:
    """Return a load with these rates."""
    return MeasuredLoad(START, step, np.array(rates))


def test_the_value_at_an_instant_is_the_rate_of_the_step_before() -> None:
    """A step without a value is missing, not 0."""
    values = {START + 10: 5.0, START + 30: 7.0}
    found = load_of_series(values, START, 10, 3)

    assert np.array_equal(found.rates, [5, NAN, 7], equal_nan=True)
    assert found.gaps == [(1, 2)]
    assert found.whole.rates.tolist() == [5, 6, 7]


def test_equal_neighbours_are_one_row_and_the_last_ends_the_stream() -> None:
    """Rates have four digits of the peak."""
    text = trace_text(load(1, 1, 1234.56, 0))
    points = [(p.second, p.rate_per_second) for p in trace_points(text, where="trace")]

    assert points == [(0, 1), (20, 1235), (30, 0), (40, 0)]


def test_a_day_in_steps_of_ten_seconds_fits_into_a_producer() -> None:
    """It has the most rows of a trace, and all of them differ."""
    rates = 12_345 + 1000 * np.sin(np.arange(8640) * 0.37)
    assert len(trace_points(trace_text(load(*rates)), where="trace")) > 8000


@pytest.mark.parametrize(
    ("rates", "field", "part"),
    [
        ((1.0, -2.0), "value", "below 0"),
        ((1.0, math.inf), "value", "infinite"),
        ((1.0, NAN, NAN, 2.0), "gaps", "2026-09-21T14:13:30Z for 20 s"),
        ((NAN, 2.0), "gaps", "for 10 s"),
        ((0.0, 0.0), "rates", "0 in each step"),
    ],
)
def test_what_is_no_load_is_refused(rates: tuple[float, ...], field: str, part: str) -> None:
    """With the instant, and how long it lasts."""
    with pytest.raises(WrongInput) as refused:
        require_trace(load(*rates))

    assert refused.value.field == field
    assert part in str(refused.value.value)
    offers = "--interpolate" in refused.value.allowed
    assert offers == (field == "gaps" and not math.isnan(rates[0]))


@pytest.mark.parametrize(
    ("seconds", "step", "field"),
    [(5, 10, "--to"), (86_410, 10, "--to"), (86_400, 5, "--step")],
)
def test_a_period_that_no_trace_holds_is_refused(seconds: int, step: int, field: str) -> None:
    """It is shorter than a step, longer than a stream, or has too many rows."""
    with pytest.raises(WrongInput) as refused:
        step_count(START, START + seconds, step)

    assert refused.value.field == field


OFFSETS = np.array([[100, 50], [100, 80], [160, 80]])


@pytest.mark.parametrize(
    ("starts", "allowed"),
    [([0, 0], ""), ([10, 0], ""), ([100, 0], "14:13:40Z"), ([160, 0], "another period")],
)
def test_messages_that_retention_took_are_not_counted_as_none(
    starts: list[int], allowed: str
) -> None:
    """The period has to begin when the oldest kept message was there already."""
    if not allowed:
        found = load_of_offsets(OFFSETS, np.array(starts), START, 10)
        assert (found.rates.tolist(), found.shares) == ([3, 6], (60 / 90, 30 / 90))
        return
    with pytest.raises(WrongInput) as refused:
        load_of_offsets(OFFSETS, np.array(starts), START, 10)

    assert (refused.value.field, allowed in refused.value.allowed) == ("--from", True)


@pytest.mark.parametrize("hottest", [1 / 12, 0.15, 0.3, 0.6])
def test_keys_are_found_for_the_hottest_partition(hottest: float) -> None:
    """Within half a percent of the load."""
    shares = [hottest, *[(1 - hottest) / 11] * 11]
    keys, reached = keys_of_shares(shares)

    assert reached == pytest.approx(hottest, abs=0.005)
    text = replay_text(
        {"name": "a", "description": "b", "partitions": 12}, trace="t.csv", shares=shares
    )
    assert yaml.safe_load(text)["keys"] == {"zipf_s": keys.zipf_s}
