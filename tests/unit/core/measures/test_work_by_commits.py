"""The work of a group from its committed offsets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.fakes.group_story import SECOND, change, event

from lagbench.core.measures.evidence.lag_readings import BIN_NS, LagSeries, RateSeries, lag_series
from lagbench.core.measures.partition_work import (
    CommittedWork,
    PartitionWork,
    bins_without_reading,
    rate_of_commits,
    waiting_after,
    work_by_commits,
)
from lagbench.core.measures.standstill import Standstill, asleep_periods, held_records, standstill


def _series(ends: list[int], commits: list[int | None]) -> LagSeries:
    at = [second * SECOND for second in range(len(ends))]
    return lag_series(at, [0] * len(ends), ends, commits, first_partitions=1)


def of_commits(lag: LagSeries) -> CommittedWork:
    """Return the work of a group whose offsets were read twice."""
    found = work_by_commits(lag)
    assert found is not None
    return found


def test_work_is_even_between_two_commits() -> None:
    """A commit of 500 in five seconds is 100 a second, not 500 in one."""
    ends = [100 * second for second in range(41)]
    commits: list[int | None] = [100 * (second // 5) * 5 for second in range(41)]
    found = of_commits(_series(ends, commits))
    assert found.commit_seconds == pytest.approx(5)
    by_second = found.rate.processed.reshape(-1, 10).sum(axis=1)
    assert set(by_second.tolist()) == {100}
    assert int(found.rate.offered.sum()) == 4000


def test_a_pause_longer_than_usual_is_seen() -> None:
    """After commits each second, ten seconds without one are a standstill of about that length."""
    commits: list[int | None] = [100 * second for second in range(20)]
    commits += [1900] * 10 + [1900 + 100 * (second + 1) for second in range(20)]
    ends = [100 * second + 100 for second in range(50)]
    found = of_commits(_series(ends, commits))
    stood = standstill(found.rate, found.work, from_at=0, until_at=49 * SECOND, message_seconds=0.0)
    assert stood.group_seconds == pytest.approx(9.5, abs=1.0)


def test_an_offset_set_back_is_no_new_work() -> None:
    """Work that is done again is not counted a second time."""
    commits: list[int | None] = [0, 100, 200, 50, 100, 200, 300]
    found = of_commits(_series([1000] * 7, commits))
    assert int(found.rate.processed.sum()) == 300


def test_the_load_and_work_of_a_recreated_topic_count() -> None:
    """Both go on from the new, lower offsets, and what waited in the old log is gone."""
    ends = [1_000, 1_100, 1_200, 10, 110, 210]
    commits: list[int | None] = [500, 600, 700, 10, 60, 110]
    found = of_commits(_series(ends, commits))
    offered = found.rate.offered.reshape(-1, 10).sum(axis=1)
    assert offered.tolist() == [100, 100, 0, 100, 100]
    assert [int(part.sum()) for part in np.split(found.rate.processed, [20])] == [200, 100]
    assert found.work.waiting[0, 29] == pytest.approx(500, abs=20)
    assert found.work.waiting[0, 31] == pytest.approx(0, abs=10)
    assert found.work.waiting[0, -1] == pytest.approx(100, abs=30)


def test_work_that_waited_at_the_start_counts_as_waiting() -> None:
    """A backlog of the first sample waits from the first bin on."""
    found = of_commits(_series([500] * 4, [100, 100, 100, 100]))
    assert found.work.backlog == 400
    assert int(found.work.waiting[0, -1]) == 400
    assert found.commit_seconds is None


def test_what_was_never_committed_is_not_known_to_be_done() -> None:
    """Without a second reading there is nothing to compare."""
    found = of_commits(_series([0, 10, 20], [None, None, None]))
    assert np.array_equal(found.rate.processed, np.zeros(20))
    assert work_by_commits(_series([5], [0])) is None


def _offered() -> RateSeries:
    """Return four seconds in which 1,000 messages a second came."""
    return RateSeries(0, np.full(40, 100, dtype=np.int64), np.zeros(40, dtype=np.int64))


def _per_second(*commits: int | None) -> list[int]:
    """Return the messages of each second, with a reading of the offsets a second."""
    found = rate_of_commits(_offered(), _series([9_000] * len(commits), list(commits)))
    assert (found.offered == 100).all()
    assert found.processed.size == 40
    return [int(count) for count in found.processed.reshape(-1, 10).sum(axis=1)]


@pytest.mark.parametrize(
    ("commits", "per_second"),
    [
        ([0, 500, 500, 2_000], [500, 750, 750, 0]),  # even between two commits
        # Work that is done again is no progress until the offset is ahead again.
        ([0, 1_000, 400, 1_200], [1_000, 100, 100, 0]),
        # A run's topic begins empty, so the first commit counts whole.
        ([None, None, 500, 1_000], [0, 500, 500, 0]),
    ],
)
def test_a_runs_rate_is_by_its_commits(commits: list[int | None], per_second: list[int]) -> None:
    """The same rule as of an observed group, in the bins of the run."""
    assert _per_second(*commits) == per_second
    known = _offered()
    assert rate_of_commits(known, _series([], [])) is known  # nothing is known of the work
    assert rate_of_commits(known, _series([9_000], [100])) is known


def _read_at(seconds: list[int], every: int = 5) -> LagSeries:
    """Return readings of a group that does 100 messages a second and commits ``every`` seconds."""
    return lag_series(
        [second * SECOND for second in seconds],
        [0] * len(seconds),
        [100 * second + 10 for second in seconds],
        [100 * (second // every) * every for second in seconds],
        first_partitions=1,
    )


def test_work_in_a_gap_of_the_readings_is_not_known() -> None:
    """A steady group has neither a standstill nor a burst outside of the bins without a reading.

    Nothing is read from 63 to 121 s. The commits next to this are seen at 60 and 125 s.
    """
    lag = _read_at([*range(63), *range(122, 200)])
    found = of_commits(lag)

    missing = bins_without_reading(found.rate, lag)

    assert np.flatnonzero(missing).tolist() == list(range(600, 1250))
    per_second = found.rate.processed.reshape(-1, 10).sum(axis=1)
    is_known = ~missing.reshape(-1, 10).any(axis=1)
    assert set(per_second[is_known][:-5].tolist()) == {100}
    assert int(per_second[~is_known].max()) == 800
    two_missed = _read_at([*range(20), *range(22, 40)])
    assert not bins_without_reading(of_commits(two_missed).rate, two_missed).any()


def test_a_standstill_that_was_read_before_a_gap_stays_known() -> None:
    """Only one spread of a commit (1.5 s) before the gap may hold work that was not committed."""
    seconds = [*range(41), *range(60, 80)]
    done = [100 * min(second, 20) if second <= 40 else 100 * second for second in seconds]
    lag = lag_series(
        [second * SECOND for second in seconds],
        [0] * len(seconds),
        [100 * second + 10 for second in seconds],
        done,
        first_partitions=1,
    )
    found = of_commits(lag)

    missing = np.flatnonzero(bins_without_reading(found.rate, lag))

    assert (missing[0], missing[-1]) == (385, 609)


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
    done = bins((10, 100), (60, 0), (10, 100))
    assert of(done, done).group_seconds == 0  # a group with nothing to do may stand
    assert of(np.zeros(0, np.int64), np.zeros(0, np.int64)).group_seconds is None  # not known


def test_work_on_its_way_and_in_flight_does_not_wait() -> None:
    """One message a second, each done within 0.2 s; one that costs 3 s, done one by one."""
    offered = np.tile([1, 0, 0, 0, 0, 0, 0, 0, 0, 0], 60)
    processed = np.tile([0, 0, 1, 0, 0, 0, 0, 0, 0, 0], 60)
    costly = bins((1, 100), (99, 0)), np.tile([0] * 29 + [1], 34)[:1000]

    assert of(offered, processed).group_seconds == 0
    assert of(*costly, message_seconds=3.0).group_seconds == 0
    assert (of(*costly).group_seconds or 0) > 2.5


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


def test_a_standstill_holds_up_what_comes_meanwhile() -> None:
    """100/s for 45 s to a partition without an owner; 4 s are a dip."""
    offered = bins((100, 10))
    gone, dip = bins((20, 10), (45, 0), (35, 20)), bins((50, 10), (4, 0), (46, 20))
    found = work(np.stack([offered, offered]), np.stack([gone, dip]))
    rate = RateSeries(0, 2 * offered, gone + dip)

    assert held_records(rate, found, 0, 100 * SECOND) == pytest.approx(4500, abs=20)
    assert held_records(rate, found, 30 * SECOND, 100 * SECOND) == pytest.approx(3500, abs=20)
    assert held_records(rate, replace(found, done=None), 0, 100 * SECOND) is None


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
