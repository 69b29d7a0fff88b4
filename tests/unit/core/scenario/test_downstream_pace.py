"""A slow downstream stretches the writes, and only those inside its time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.scenario.downstream_pace import DownstreamPace, Slowdown

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
