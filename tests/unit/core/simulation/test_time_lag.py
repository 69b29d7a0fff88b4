"""How long simulated messages waited until they were done."""

import numpy as np
import pytest

from lagbench.core.scenario.stream.profile import OfferedLoad, Segment
from lagbench.core.simulation.backlog import Backlog
from lagbench.core.simulation.time_lag import TimeLag, time_lag_seconds
from lagbench.core.simulation.traffic import Traffic


def waited(until: float, *, planned_seconds: float = 20.0) -> TimeLag:
    """Return the percentiles of 20 s at 200/s into a pod of 100/s, watched until an instant.

    The message of second t is done at 2t, so it waits t seconds: half of 20 s at most 10 s.
    """
    traffic = Traffic(OfferedLoad((Segment(0.0, 200.0),), 20.0), np.ones(1))
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    backlog.set_owners(0.0, [0], {0: 0.0})
    instants, lags = backlog.courses(until)[0]
    return time_lag_seconds(traffic, instants, lags[:, None], planned_seconds)


def test_a_message_waits_for_those_before_it() -> None:
    """The wait grows by a second a second: half wait up to 10 s, one in a hundred above 19.8 s."""
    assert waited(60.0) == pytest.approx((10.0, 19.8), abs=0.02)


def test_only_messages_of_the_planned_window_count() -> None:
    """Of the first 10 s the last hundredth waits above 9.9 s."""
    assert waited(60.0, planned_seconds=10.0).p99 == pytest.approx(9.9, abs=0.02)


def test_messages_that_are_not_done_leave_it_unknown() -> None:
    """At 39.9 s all but the last quarter of a percent are done; at 39 s more than 1 % are not."""
    assert waited(39.9).p99 == pytest.approx(19.8, abs=0.02)
    assert waited(39.0) == pytest.approx((10.0, None), abs=0.02)


def test_partitions_count_by_their_messages() -> None:
    """A slow partition with 0.5 % of the messages is above the percentile, one with 2 % is not."""
    instants = np.array([0.0, 10.0, 20.0])
    traffic = Traffic(OfferedLoad((Segment(0.0, 1000.0),), 10.0), np.array([0.995, 0.005]))
    slow = np.array([[0.0, 0.0], [0.0, 50.0], [0.0, 0.0]])
    assert time_lag_seconds(traffic, instants, slow, 10.0).p99 == 0.0

    traffic = Traffic(OfferedLoad((Segment(0.0, 1000.0),), 10.0), np.array([0.98, 0.02]))
    slow = np.array([[0.0, 0.0], [0.0, 200.0], [0.0, 0.0]])
    # Nothing of it is done before 10 s, then 20/s: the message of second t is done at 10 + t.
    assert time_lag_seconds(traffic, instants, slow, 10.0).p99 == pytest.approx(10.0)


def test_no_message_has_no_wait() -> None:
    """Without load there is nothing to measure."""
    traffic = Traffic(OfferedLoad((Segment(0.0, 0.0),), 10.0), np.ones(1))
    lags = np.zeros((2, 1))

    assert time_lag_seconds(traffic, np.array([0.0, 10.0]), lags, 10.0) == (None, None)
