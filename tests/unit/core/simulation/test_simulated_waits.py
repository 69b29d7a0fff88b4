"""How long simulated messages waited until they were done, and longer than the SLO allows."""

import numpy as np
import pytest

from lagbench.core.scenario.stream.profile import OfferedLoad, Segment
from lagbench.core.simulation.backlog import Backlog, Traffic
from lagbench.core.simulation.simulation_measures import TimeLag, seconds_over, time_lag_seconds


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


def test_the_oldest_message_decides() -> None:
    """At 200/s into a pod of 100/s the oldest message is t/2 old: above 5 s from t = 10 s on.

    From 20 s on nothing arrives; 2,000 records at 100/s last until 40 s. The message in work at t
    arrived at t/2, so it is older than 5 s all the time from 10 s to 40 s.
    """
    traffic = Traffic(OfferedLoad((Segment(0.0, 200.0),), 20.0), np.ones(1))
    backlog = Backlog(traffic, pod_rate=100.0, commit_seconds=1.0, starts_at=0.0)
    backlog.set_owners(0.0, [0], {0: 0.0})
    instants, lags = backlog.courses(60.0)[0]

    assert seconds_over(traffic, instants, lags[:, None], 5.0) == pytest.approx(30.0)
    assert seconds_over(traffic, instants, lags[:, None], 21.0) == pytest.approx(0.0)


def test_partitions_that_are_late_at_the_same_time_count_once() -> None:
    """Two partitions late from 1 s and from 2 s on until the end make one period."""
    traffic = Traffic(OfferedLoad((Segment(0.0, 20.0),), 10.0), np.array([0.5, 0.5]))
    instants = np.array([0.0, 1.0, 10.0])
    lags = np.array([[0.0, 0.0], [10.0, 0.0], [100.0, 90.0]])

    seconds = seconds_over(traffic, instants, lags, 0.5)

    # Partition 0 keeps all of its 10/s: more than 5 records (0.5 s) from 0.5 s on.
    assert seconds == pytest.approx(9.5)
