"""The cost of downstream writes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lagbench.core.scenario.downstream_pace import DownstreamPace
from lagbench.programs.consumer.downstream_clock import DownstreamClock, Instants
from lagbench.programs.consumer.write_schedule import MAX_LATE_NS, WriteSchedule

MS = 1_000_000
NOW = 1_000_000 * MS


def test_one_slot_does_one_write_after_the_other() -> None:
    """At concurrency 1 a write starts when the one before has ended."""
    starts, ends = WriteSchedule(2 * MS, 1).plan(3, arrived_at=NOW, now=NOW)

    assert list(starts - NOW) == [0, 2 * MS, 4 * MS]
    assert list(ends - starts) == [2 * MS] * 3


def test_slots_work_side_by_side() -> None:
    """At concurrency 3 three writes start together."""
    starts, _ = WriteSchedule(2 * MS, 3).plan(7, arrived_at=NOW, now=NOW)

    assert list(starts - NOW) == [0, 0, 0, 2 * MS, 2 * MS, 2 * MS, 4 * MS]


def test_slots_are_shared_between_partitions() -> None:
    """Two records of one partition leave one of three slots to the next partition."""
    schedule = WriteSchedule(2 * MS, 3)
    schedule.plan(2, arrived_at=NOW, now=NOW)

    starts, _ = schedule.plan(2, arrived_at=NOW, now=NOW)

    assert list(starts - NOW) == [0, 2 * MS]


def test_a_late_thread_costs_no_capacity() -> None:
    """Work that waited starts where the slots became free, however late the thread woke."""
    schedule = WriteSchedule(2 * MS, 4)
    total, now, first = 0, NOW, NOW
    random_source = random.Random(5)
    last = NOW
    while total < 20_000:
        room = schedule.room_until(now + 20 * MS, NOW, now)
        if room:
            _, ends = schedule.plan(room, arrived_at=NOW, now=now)
            total, last = total + room, int(ends[-1])
        now += random_source.randrange(1, 60 * MS)  # sleeps too long, again and again

    assert total / ((last - first) / 1e9) == pytest.approx(2000, rel=1e-3)


def test_a_slow_downstream_slows_the_pod_by_its_factor_and_only_then() -> None:
    """At 2 ms and four slots a pod does 2,000/s, a third of it while writes cost three times."""
    downstream = DownstreamClock(DownstreamPace.of_rows([(10, 20, 3)]))
    downstream.stream_started(NOW)
    schedule = WriteSchedule(2 * MS, 4, downstream)
    done: list[np.ndarray] = []
    for now in range(NOW, NOW + 30_000 * MS, 20 * MS):
        room = schedule.room_until(now + 20 * MS, NOW, now)
        if room:
            starts, ends = schedule.plan(room, arrived_at=NOW, now=now)
            done.append(np.stack([starts, ends]))
    starts, ends = (np.concatenate([part[row] for part in done]) - NOW for row in (0, 1))

    in_seconds = np.histogram(ends / 1e9, bins=[0, 10, 20, 30])[0]
    assert list(in_seconds) == pytest.approx([20_000, 20_000 / 3, 20_000], abs=8)
    assert (np.diff(starts) >= 0).all()
    assert (np.diff(ends) >= 0).all()
    inside = (starts > 10_000 * MS) & (ends < 20_000 * MS)
    assert np.abs(ends - starts - 6 * MS)[inside].max() <= 3
    outside = (ends < 10_000 * MS) | (starts > 20_000 * MS)
    assert set((ends - starts)[outside]) == {2 * MS}


def test_nothing_is_slow_before_the_streams_start_is_known() -> None:
    """A pod without a record yet keeps its pace; it asks for the start only if it needs it."""
    downstream = DownstreamClock(DownstreamPace.of_rows([(0, 20, 3)]))

    starts, ends = WriteSchedule(2 * MS, 1, downstream).plan(2, arrived_at=NOW, now=NOW)

    assert list(ends - starts) == [2 * MS] * 2
    assert downstream.needs_stream_start
    assert not DownstreamClock(DownstreamPace()).needs_stream_start


def test_idle_time_is_never_made_up_for() -> None:
    """After an idle second the first write starts when its record came, not before."""
    schedule = WriteSchedule(2 * MS, 1)
    schedule.plan(1, arrived_at=NOW, now=NOW)

    starts, _ = schedule.plan(1, arrived_at=NOW + 1000 * MS, now=NOW + 1003 * MS)

    assert starts[0] == NOW + 1000 * MS


def test_a_frozen_process_does_no_writes() -> None:
    """What is later than the limit is lost capacity: the process was stopped, not late."""
    schedule = WriteSchedule(2 * MS, 1)
    now = NOW + 60_000 * MS

    starts, _ = schedule.plan(1, arrived_at=NOW, now=now)

    assert starts[0] == now - MAX_LATE_NS


def test_room_counts_the_writes_that_start_before_the_horizon() -> None:
    """Two slots of 2 ms have room for ten writes in 10 ms, and none after planning them."""
    schedule = WriteSchedule(2 * MS, 2)

    room = schedule.room_until(NOW + 10 * MS, NOW, NOW)
    schedule.plan(room, arrived_at=NOW, now=NOW)

    assert room == 10
    assert schedule.room_until(NOW + 10 * MS, NOW, NOW) == 0
    assert schedule.next_start_at == NOW + 10 * MS


def test_free_writes_end_at_once() -> None:
    """At a cost of zero a write starts and ends now."""
    starts, ends = WriteSchedule(0, 1).plan(3, arrived_at=NOW, now=NOW + 5)

    assert list(starts) == list(ends) == [NOW + 5] * 3


@pytest.mark.parametrize("seed", range(20))
def test_never_more_in_flight_than_slots_and_never_back_in_time(seed: int) -> None:
    """Whatever the batches: at most ``concurrency`` overlap, and starts only grow."""
    random_source = random.Random(seed)
    concurrency = random_source.randrange(1, 9)
    schedule = WriteSchedule(3 * MS, concurrency)
    now, all_starts = NOW, []
    for _ in range(200):
        now += random_source.randrange(0, 12 * MS)
        arrived_at = now - random_source.randrange(0, 12 * MS)
        starts, _ = schedule.plan(random_source.randrange(1, 20), arrived_at, now)
        all_starts.append(starts)
    starts = np.concatenate(all_starts)

    assert (np.diff(starts) >= 0).all(), f"seed {seed}"
    assert (starts[concurrency:] - starts[:-concurrency] >= 3 * MS).all(), f"seed {seed}"


def costs(*ms: int) -> Instants:
    """Return costs in nanoseconds."""
    return np.array(ms, dtype=np.int64) * MS


def test_writes_of_different_costs_follow_each_other_in_one_slot() -> None:
    """Each starts at the end of the one before; beyond the horizon none starts."""
    schedule = WriteSchedule(2 * MS, 1)

    starts, ends = schedule.plan_each(costs(5, 1, 30, 4), NOW + 20 * MS, NOW, NOW)

    assert list(starts - NOW) == [0, 5 * MS, 6 * MS]
    assert list(ends - NOW) == [5 * MS, 6 * MS, 36 * MS]
    assert schedule.next_start_at == NOW + 36 * MS


def test_a_long_write_holds_up_its_own_slot_alone() -> None:
    """While one slot takes 30 ms the other does the rest, and starts ascend."""
    schedule = WriteSchedule(2 * MS, 2)

    starts, ends = schedule.plan_each(costs(30, 5, 5, 5, 5), NOW + 20 * MS, NOW, NOW)

    assert list(starts - NOW) == [0, 0, 5 * MS, 10 * MS, 15 * MS]
    assert list(ends - NOW) == [30 * MS, 5 * MS, 10 * MS, 15 * MS, 20 * MS]
    assert schedule.room_until(NOW + 20 * MS, NOW, NOW) == 0


@pytest.mark.parametrize("concurrency", [1, 7])
def test_different_costs_keep_the_rate_of_their_mean(concurrency: int) -> None:
    """A pod that always has work does ``concurrency`` over the mean cost, however it wakes up."""
    random_source = np.random.default_rng(3)
    drawn = random_source.choice(costs(1, 21), 20_000, p=[0.9, 0.1])
    schedule = WriteSchedule(3 * MS, concurrency)
    done, now, last = 0, NOW, NOW
    while done < len(drawn):
        if schedule.room_until(now + 20 * MS, NOW, now):
            _, ends = schedule.plan_each(drawn[done:][:500], now + 20 * MS, NOW, now)
            done, last = done + len(ends), int(ends.max())
        now += int(random_source.integers(1, 40 * MS))

    assert done / ((last - NOW) / 1e9) == pytest.approx(
        concurrency / (drawn.mean() / 1e9), rel=0.01
    )


def test_cpu_work_that_took_longer_delays_every_slot() -> None:
    """What starts next starts later by as much."""
    schedule = WriteSchedule(2 * MS, 2)
    schedule.plan(2, arrived_at=NOW, now=NOW)

    schedule.delay(5 * MS)
    starts, _ = schedule.plan(1, arrived_at=NOW, now=NOW)

    assert list(starts - NOW) == [7 * MS]
