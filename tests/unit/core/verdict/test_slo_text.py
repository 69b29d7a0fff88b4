"""The numbers of an SLO as they are shown agree with its status."""

from __future__ import annotations

import re

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.measures.lag_over_time import NeverDone, Seconds
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.slo import SloResult, slo_of
from lagbench.core.verdict.verdict import judge

LIMITS = (0.0, 0.1, 29.97, 30.0, 90.0, 120.0, 999.95, 12_345.0, 1_234_567.0)

DISTANCES = (0.0, 1e-9, 1e-4, 0.04, 0.05, 0.4, 0.5, 3.0, 1000.0)


def numbers(text: str) -> list[float]:
    """Return the numbers of a text, which has none with an exponent."""
    assert not re.search(r"\de[+-]", text)
    return [float(found.replace(",", "")) for found in re.findall(r"-?\d[\d,]*\.?\d*", text)]


def judged(name: str, limit: float, value: float) -> SloResult:
    """Return the outcome of an exact value."""
    return slo_of(name, limit).compare(value, "seen")


@pytest.mark.parametrize("name", ["pod_minutes", "reaction_seconds", "rebalance_area_seconds"])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_shown_value_is_on_its_side_of_the_shown_limit(name: str, limit: float) -> None:
    """A value that fails reads as above its limit, one that passes as at or below it."""
    for distance in DISTANCES:
        for value in (limit - distance, limit + distance):
            found = judged(name, limit, value)

            (shown,), (threshold,) = numbers(found.value_text), numbers(found.threshold)

            assert threshold == limit
            assert (shown > threshold) == (found.status == "fail")


@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_that_lies_inside_an_interval_is_seen_inside(limit: float) -> None:
    """The lower end reads as at or below the limit, the upper one as above it."""
    for distance in DISTANCES[1:]:
        found = slo_of("drain_seconds", limit).compare(
            limit, "seen", low=limit - distance, high=limit + distance
        )

        least, most = numbers(found.reason.split("; ")[-1])

        assert found.status == "undetermined"
        assert least <= limit < most


@pytest.mark.parametrize(
    ("name", "limit", "value", "value_text", "threshold"),
    [
        ("pod_minutes", 30.0, 30.04, "30.04 pod-minutes", "at most 30 pod-minutes"),
        ("reaction_seconds", 90.0, 90.04, "90.04 s", "at most 90 s"),
        ("reaction_seconds", 90.0, 29.96, "30.0 s", "at most 90 s"),
        ("reaction_seconds", 2.5, 3600.0, "3,600.0 s", "at most 2.5 s"),
        ("lost", 0.0, 3.0, "3 messages", "at most 0 messages"),
        ("peak_lag_records", 1_234_567.0, 12.0, "12 messages", "at most 1234567 messages"),
    ],
)
def test_more_decimals_are_shown_only_where_they_decide(
    name: str, limit: float, value: float, value_text: str, threshold: str
) -> None:
    """A value far from its limit has the decimals of its measure; a limit has all its digits."""
    found = judged(name, limit, value)

    assert name in NAMED
    assert (found.value_text, found.threshold) == (value_text, threshold)


def test_the_ends_of_an_interval_keep_four_figures() -> None:
    """A count is whole, and an end far from the limit is short."""
    short = slo_of("drain_seconds", 20.0).compare(24.0, "seen", low=12.34567, high=24.0)
    large = slo_of("lost", 12_344.0).compare(12_345.0, "seen", low=12_341, high=12_345)

    assert numbers(short.reason) == [12.35, 24]
    assert numbers(large.reason) == [12341, 12345]


GOOD = quick_spike_measures()

TIMES = Seconds(p50=1, p95=4, p99=9, max=30)


def lost(at_least: int, at_most: int | None = None) -> Measures:
    """Return the good run, without so many of 10,000 messages."""
    undone = NeverDone(planned=10_000, at_least=at_least, at_most=at_most or at_least)
    lag = GOOD.lag.model_copy(update={"time_lag_seconds": TIMES, "never_done": undone})
    return GOOD.model_copy(update={"lag": lag})


def p95(run: Measures, limit: float | None) -> SloResult:
    """Return the result of a limit of p95."""
    slos = Slos(time_lag_p95_seconds=limit, lost=None)
    return next(s for s in judge(run, slos).slos if s.name == "time_lag_p95_seconds")


@pytest.mark.parametrize(
    ("at_least", "at_most", "limit", "status"),
    [
        (0, 0, 4, "pass"),
        (0, 0, 3.9, "fail"),
        (3_000, 3_000, 300, "fail"),  # 70 % were done: no time lag holds for 95 %
        (501, 501, 300, "fail"),
        (500, 500, 300, "pass"),  # the 95 % that were done, the last of them after 30 s
        (500, 500, 29, "undetermined"),
        (100, 100, 9, "pass"),  # 95 % of all are 96 % of the done: at most their p99
        (100, 100, 8, "undetermined"),
        (100, 100, 3.9, "fail"),  # what was done was too late already
        (0, 3_000, 300, "undetermined"),  # they waited at the end
        (0, 3_000, 3.9, "fail"),
    ],
)
def test_messages_that_were_never_done_count_in_the_time_lag(
    at_least: int, at_most: int, limit: float, status: str
) -> None:
    """With 95 % in time the others may be lost; a percentile of the done messages understates."""
    assert p95(lost(at_least, at_most), limit).status == status


def test_the_reason_says_how_many_were_never_done() -> None:
    """With a limit or without one, and no value stands for a time that does not exist."""
    failed, reported = p95(lost(3_000), 300), p95(lost(3_000), None)

    assert failed.value is None
    assert (reported.status, reported.value) == ("not_judged", 4)
    assert all("3,000 of 10,000" in found.reason for found in (failed, reported))


def test_measures_without_the_count_are_judged_as_before() -> None:
    """An older measures.json does not say how many were never done."""
    older = GOOD.lag.model_dump(mode="json", exclude={"never_done"})
    lag = type(GOOD.lag).model_validate(older | {"time_lag_seconds": TIMES.model_dump()})

    assert lag.never_done is None
    assert p95(GOOD.model_copy(update={"lag": lag}), 4).status == "pass"
