"""SLOs on the time lag, which hold for the messages that were never done, too."""

from __future__ import annotations

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.measures.lag.lag import Seconds
from lagbench.core.measures.lag.never_done import NeverDone
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Slos
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import judge

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
