"""The rate of a group that reports nothing, by its committed offsets."""

from __future__ import annotations

import pytest
from tests.fakes.live_cell import live_cell

from lagbench.core.live import Course
from lagbench.core.policy import PolicyLimits
from lagbench.core.scenario import Slos
from lagbench.core.telemetry import LagSample

S = 1_000_000_000
CELL = live_cell()
NO_THRESHOLD = PolicyLimits(
    floor_replicas=1, ceiling_replicas=4, lag_threshold_records=None, threshold_rule="none"
)


def rate(*commits: tuple[int, int | None], later_seconds: int = 0) -> float | None:
    """Return the rate after a second each of the two partitions' commits."""
    course = Course(CELL, Slos(), NO_THRESHOLD, reports_owners=False, reports_work=False)
    for second, (first, other) in enumerate(commits):
        partitions = [(0, 10_000, first), (1, 10_000, other)]
        sample = LagSample(at=second * S, source="recorder", partitions=partitions)
        course.take(sample, sample.at)
    return course.line((len(commits) - 1 + later_seconds) * S).processed_per_second


def test_the_rate_is_that_of_the_last_ten_seconds() -> None:
    """The commits of both partitions count; what was before the ten seconds does not."""
    idle = [(500, 500)] * 20
    busy = [(500 + 100 * s, 500 + 20 * s) for s in range(1, 11)]

    assert rate(*idle, *busy) == pytest.approx(120.0)
    assert rate(*idle) == 0.0


def test_commits_in_steps_make_an_even_rate() -> None:
    """A client that commits every 5 s is not shown as 0 and peaks by turns."""
    steps = [(500 * (second // 5), 0) for second in range(31)]

    assert {rate(*steps[:seen]) for seen in range(16, 31)} == {100.0}


def test_a_partition_without_a_commit_begins_at_zero() -> None:
    """The topic is the run's own: its first commit counts all that is below it."""
    assert rate(*[(0, None)] * 5, *[(0, 400)] * 4) == pytest.approx(50.0)


def test_offsets_that_went_back_are_no_negative_rate() -> None:
    """Nothing was consumed that was not consumed before."""
    assert rate(*[(900, 0)] * 6, (100, 0)) == 0.0


def test_what_is_not_known_is_missing() -> None:
    """Too short a time, a group that never commits, and a recorder that went silent: no rate."""
    busy = [(100 * second, 0) for second in range(11)]

    assert rate(*busy) == pytest.approx(100.0)
    assert rate(*busy[:4]) is None
    assert rate(*[(None, None)] * 11) is None  # type: ignore[list-item]
    assert rate(*busy, later_seconds=10) is None
