"""The longest time in which nothing was done although work waited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, change, event

from lagbench.core.measures.evidence.lag_readings import BIN_NS, RateSeries
from lagbench.core.measures.partition_work import PartitionWork, waiting_after
from lagbench.core.measures.standstill import Standstill, asleep_periods, standstill


def bins(*periods: tuple[float, int]) -> np.ndarray:
    """(seconds, per bin) one after the other."""
    counts = [count for seconds, count in periods for _ in range(round(seconds * 10))]
    return np.array(counts, dtype=np.int64)


def work(arrivals: np.ndarray, done: np.ndarray) -> PartitionWork:
    """Return partitions as the tables tell them; matrices are [partition, bin]."""
    counts = done.astype(np.int32)
    return PartitionWork(
        arrivals=arrivals.astype(np.int32),
        waiting=waiting_after(arrivals.astype(np.int32), counts),
        done=counts,
        lost=np.zeros(done.shape[1], dtype=np.int64),
        pod_rates=None,
        message_seconds=None,
    )


def of(
    offered: np.ndarray,
    processed: np.ndarray,
    *,
    message_seconds: float = 0.0,
    lost: np.ndarray | None = None,
    asleep: tuple[tuple[int, int], ...] = (),
) -> Standstill:
    """Return the standstill of a group with one partition."""
    found = work(offered[None, :], processed[None, :])
    if lost is not None:
        found = replace(found, lost=lost)
    return standstill(
        RateSeries(0, offered, processed),
        found,
        from_at=0,
        until_at=offered.size * BIN_NS,
        message_seconds=message_seconds,
        asleep=asleep,
    )


def test_a_stop_with_work_waiting_is_a_standstill() -> None:
    """Twenty seconds without a message done, thousands waiting: known to half a second."""
    found = of(bins((1, 500), (59, 100)), bins((20, 100), (20, 0), (20, 100)))

    assert found.group_low_seconds == pytest.approx(20)
    assert found.group_high_seconds == pytest.approx(20.5)
    assert found.group_started_at == 20 * SECOND


def test_a_group_with_nothing_to_do_may_stand() -> None:
    """All that was offered is done: a minute without work is no standstill."""
    found = of(bins((10, 100), (60, 0), (10, 100)), bins((10, 100), (60, 0), (10, 100)))

    assert found.group_seconds == 0


def test_messages_on_their_way_do_not_wait() -> None:
    """One message a second, each done within 0.2 s."""
    offered = np.tile([1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 60)
    processed = np.tile([0, 0, 1, 0, 0, 0, 0, 0, 0, 0], 60)

    assert of(offered, processed).group_seconds == 0


def test_work_in_flight_is_work() -> None:
    """A message costs 3 s and one pod does them one by one: it never stands."""
    offered = bins((1, 100), (99, 0))
    processed = np.tile([0] * 29 + [1], 34)[:1000]

    assert of(offered, processed, message_seconds=3.0).group_seconds == 0
    assert (of(offered, processed).group_seconds or 0) > 2.5


def test_messages_that_are_lost_wait_for_nobody() -> None:
    """Ten of them were skipped by a commit: the group is idle afterwards, it does not stand."""
    offered, processed = bins((10, 100), (60, 0)), bins((10, 100), (60, 0))
    processed[50] -= 10
    lost = np.zeros(offered.size, dtype=np.int64)
    lost[50] = 10

    assert of(offered, processed, lost=lost).group_seconds == 0
    assert (of(offered, processed).group_seconds or 0) > 50


def test_the_partition_that_stands_longest_is_named() -> None:
    """Partition 1 waits for a session timeout of 45 s while partition 0 is worked on."""
    offered = bins((100, 10))
    quiet = bins((20, 10), (45, 0), (35, 10))
    found = standstill(
        RateSeries(0, 2 * offered, offered + quiet),
        work(np.stack([offered, offered]), np.stack([offered, quiet])),
        from_at=0,
        until_at=100 * SECOND,
        message_seconds=0.0,
    )

    assert found.group_seconds == 0
    assert found.partition == 1
    assert found.partition_seconds == pytest.approx(45, abs=0.3)


def test_without_the_messages_partitions_are_not_reported() -> None:
    """The group is judged anyway, and it is said."""
    offered = bins((60, 100))
    processed = bins((20, 100), (20, 0), (20, 100))
    bare = replace(work(offered[None, :], processed[None, :]), done=None, note="absent")

    found = standstill(
        RateSeries(0, offered, processed), bare, from_at=0, until_at=60 * SECOND, message_seconds=0
    )

    assert found.group_seconds == pytest.approx(20, abs=0.3)
    assert (found.partition, found.reason) == (None, "absent")


def test_a_run_without_a_rate_is_not_known() -> None:
    """No timeline: no standstill is invented and none is excluded."""
    none = np.zeros(0, dtype=np.int64)

    assert of(none, none).group_seconds is None


def test_scaled_to_zero_the_wait_is_the_reactions() -> None:
    """From the last member's end to the first assignment, if zero replicas were wanted."""
    events = [
        event(0, "a", "assigned", {0}),
        event(30, "a", "sigterm"),
        event(30.5, "a", "left"),
        event(80, "a", "joined"),
        event(81, "a", "assigned", {0}),
    ]
    to_zero = change(30, 1, 0, by="keda")
    offered = bins((100, 10))
    processed = bins((30, 10), (51, 0), (19, 10))

    asleep = asleep_periods(events, [], [to_zero], 100 * SECOND)

    assert asleep == [(round(30.5 * SECOND), 81 * SECOND)]
    assert asleep_periods(events, [], [], 100 * SECOND) == []
    assert (of(offered, processed, asleep=tuple(asleep)).group_seconds or 0) < 1
