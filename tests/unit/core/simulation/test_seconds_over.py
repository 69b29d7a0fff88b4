"""How long messages waited longer than the SLO allows."""

import numpy as np
import pytest

from lagbench.core.scenario.stream.profile import OfferedLoad, Segment
from lagbench.core.simulation.backlog import Backlog
from lagbench.core.simulation.measure import seconds_over
from lagbench.core.simulation.traffic import Traffic


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
