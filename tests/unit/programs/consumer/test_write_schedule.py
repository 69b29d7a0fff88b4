"""The cost of downstream writes."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.programs.consumer.fake_group import chunk

from lagbench.core.scenario.cost_draws import process_ns
from lagbench.core.scenario.message_costs import DownstreamPace, Effect, PoisonedKey
from lagbench.programs.consumer.consumer_settings import parse_options
from lagbench.programs.consumer.waited_slots import WaitedSlots
from lagbench.programs.consumer.work_queues import PartitionWork, Writes
from lagbench.programs.consumer.worker import CpuBurner, MessageCosts
from lagbench.programs.consumer.write_schedule import (
    MAX_LATE_NS,
    DownstreamClock,
    Instants,
    WriteSchedule,
)

MS = 1_000_000
NOW = 1_000_000 * MS


@pytest.mark.parametrize(
    ("slots", "counts", "starts_ms"),
    [
        (1, (7,), [0, 2, 4, 6, 8, 10, 12]),
        (3, (7,), [0, 0, 0, 2, 2, 2, 4]),
        # Two records of one partition leave one of three slots to the next partition.
        (3, (2, 2), [0, 0, 0, 2]),
    ],
)
def test_slots_work_side_by_side(slots: int, counts: tuple[int, ...], starts_ms: list[int]) -> None:
    """In one slot a write starts when the one before has ended; in three, three start together."""
    schedule = WriteSchedule(2 * MS, slots)
    planned = [schedule.plan(count, arrived_at=NOW, now=NOW) for count in counts]
    starts, ends = (np.concatenate([each[part] for each in planned]) for part in (0, 1))

    assert list(starts - NOW) == [at * MS for at in starts_ms]
    assert set(ends - starts) == {2 * MS}


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


def test_waited_slots_lose_what_the_thread_oversleeps() -> None:
    """A slot is free when the thread saw that its wait was over, and no write makes up for it.

    Two slots of 10 ms, and a thread that wakes after 14 ms: the third write is 4 ms late.
    """
    slots = WaitedSlots(10 * MS, 2, DownstreamClock(DownstreamPace()))

    assert [slots.room_until(NOW + 90 * MS, NOW, NOW), slots.next_start_at] == [2, 0]
    first = slots.plan(2, arrived_at=NOW - 5 * MS, now=NOW)
    slots.hold(first[1])
    assert (slots.room_until(NOW, NOW, NOW), slots.next_end_at) == (0, NOW + 10 * MS)
    assert slots.next_start_at == NOW + 10 * MS
    slots.end(NOW + 9 * MS)
    assert not slots.room_until(NOW, NOW, NOW)
    late = NOW + 14 * MS
    slots.end(late)
    starts, ends = slots.plan_each(costs(3, 7, 1), late + 20 * MS, NOW, late)

    assert [list(part - NOW) for part in first] == [[0, 0], [14 * MS, 14 * MS]]
    assert list(starts - late) == [0, 0]
    assert list(ends - late) == [3 * MS, 7 * MS]


def test_waited_slots_wait_longer_for_a_slow_downstream() -> None:
    """A wait that begins in the slow time takes its factor, one across its end a part of it."""
    downstream = DownstreamClock(DownstreamPace.of_rows([(10, 20, 3)]))
    downstream.stream_started(NOW)
    slots = WaitedSlots(2 * MS, 3, downstream)

    waits = [
        int(np.subtract(*slots.plan(1, arrived_at=NOW, now=NOW + at * MS)[::-1])[0]) / MS
        for at in (9_000, 15_000, 19_997)
    ]

    assert waits == pytest.approx([2, 6, 4], abs=0.001)


def test_nothing_is_slow_before_the_streams_start_is_known() -> None:
    """A pod without a record yet keeps its pace; it asks for the start only if it needs it."""
    downstream = DownstreamClock(DownstreamPace.of_rows([(0, 20, 3)]))

    starts, ends = WriteSchedule(2 * MS, 1, downstream).plan(2, arrived_at=NOW, now=NOW)

    assert list(ends - starts) == [2 * MS] * 2
    assert downstream.needs_stream_start
    assert not DownstreamClock(DownstreamPace()).needs_stream_start


def test_idle_and_frozen_time_is_never_made_up_for() -> None:
    """After an idle second a write starts when its record came; a frozen process does none."""
    schedule = WriteSchedule(2 * MS, 1)
    schedule.plan(1, arrived_at=NOW, now=NOW)
    after_idle, _ = schedule.plan(1, arrived_at=NOW + 1000 * MS, now=NOW + 1003 * MS)
    frozen, _ = schedule.plan(1, arrived_at=NOW + 1001 * MS, now=NOW + 60_000 * MS)

    assert after_idle[0] == NOW + 1000 * MS
    assert frozen[0] == NOW + 60_000 * MS - MAX_LATE_NS


def test_room_counts_the_writes_that_start_before_the_horizon() -> None:
    """Two slots of 2 ms have room for ten writes in 10 ms, and none after planning them.

    Cpu work that took longer delays every slot; free writes start and end at once.
    """
    schedule = WriteSchedule(2 * MS, 2)

    room = schedule.room_until(NOW + 10 * MS, NOW, NOW)
    schedule.plan(room, arrived_at=NOW, now=NOW)

    assert room == 10
    assert schedule.room_until(NOW + 10 * MS, NOW, NOW) == 0
    assert schedule.next_start_at == NOW + 10 * MS
    schedule.delay(5 * MS)
    assert list(schedule.plan(1, arrived_at=NOW, now=NOW)[0] - NOW) == [15 * MS]
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


@pytest.mark.parametrize(
    ("slots", "costs_ms", "spans_ms"),
    [
        (1, (5, 1, 30, 4), [(0, 5), (5, 6), (6, 36)]),
        # One slot takes 30 ms; the other does the rest.
        (2, (30, 5, 5, 5, 5), [(0, 30), (0, 5), (5, 10), (10, 15), (15, 20)]),
    ],
)
def test_each_write_takes_the_slot_that_is_free_first(
    slots: int, costs_ms: tuple[int, ...], spans_ms: list[tuple[int, int]]
) -> None:
    """A long write holds up its own slot alone; beyond the horizon none starts."""
    schedule = WriteSchedule(2 * MS, slots)

    starts, ends = schedule.plan_each(costs(*costs_ms), NOW + 20 * MS, NOW, NOW)

    assert list(zip((starts - NOW) // MS, (ends - NOW) // MS, strict=True)) == spans_ms
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


class Core:
    """A CPU clock and a wall clock that pass by one ms of burning at a time."""

    def __init__(self, wall_per_cpu: int) -> None:
        """Pass ``wall_per_cpu`` ms of wall time for each ms of CPU time."""
        self.cpu_ns = self.wall_ns = 0
        self._wall_per_cpu = wall_per_cpu

    def burner(self, cpu_ns: int) -> CpuBurner:
        """Return a burner on these clocks."""
        return CpuBurner(
            cpu_ns, lambda: self.wall_ns, cpu_clock=lambda: self.cpu_ns, burn=self._burn
        )

    def _burn(self) -> None:
        self.cpu_ns += MS
        self.wall_ns += MS * self._wall_per_cpu


def planned(count: int, cost_ns: int) -> Writes:
    """Return records whose work was planned one after the other from 0 on."""
    records = chunk(0, count)
    starts = np.arange(count, dtype=np.int64) * cost_ns
    work = PartitionWork(0, "member")
    return Writes(work, records.offsets, records.events, starts, starts + cost_ns)


@pytest.mark.parametrize(("wall_per_cpu", "late_ms"), [(1, 0), (3, 20)])
def test_a_pod_without_a_core_of_its_own_is_late(wall_per_cpu: int, late_ms: int) -> None:
    """Ten messages of 1 ms take 10 ms of CPU; at a third of a core the last is 20 ms late.

    What was planned after late records starts after them, even if its own work was not late.
    """
    burner, second = Core(wall_per_cpu).burner(1 * MS), planned(1, 1 * MS)

    writes, late_ns = burner.work_on(planned(10, 1 * MS), 0)
    later = replace(second, started_at=second.started_at + 25 * MS)
    after, _ = burner.work_on(later, late_ns)

    assert late_ns / MS == pytest.approx(late_ms, abs=wall_per_cpu)
    assert (np.diff(writes.started_at) >= 0).all()
    assert writes.all_done_at / MS == pytest.approx(10 + late_ms, abs=wall_per_cpu)
    assert after.started_at[0] == 25 * MS + late_ns


def test_the_burner_spends_the_thread_s_own_cpu_time() -> None:
    """40 messages of 1 ms take 40 ms of this thread's CPU time, measured by its clock.

    What was burned too much is burned less next time: blocks of 1 ms serve messages of 0.3 ms.
    """
    burner = CpuBurner(1 * MS, time.monotonic_ns)
    began = time.thread_time_ns()
    for _ in range(4):
        burner.work_on(planned(10, 1 * MS), 0)
    assert 39 * MS < time.thread_time_ns() - began < 60 * MS

    core = Core(1)
    small = core.burner(300_000)
    for _ in range(1000):
        small.work_on(planned(1, 300_000), 0)
    assert core.cpu_ns / MS == pytest.approx(300, abs=1)


LOGNORMAL = json.dumps({"kind": "lognormal", "mean_ms": 20, "p99_ms": 80})


def costs_of(*arguments: str, poison: PoisonedKey | None = None) -> MessageCosts:
    """Return the costs of a pod with these flags."""
    flags = [*arguments] if poison is None else [*arguments, f"--poison={poison.model_dump_json()}"]
    environment = {"POD_NAME": "consumer-7", "KAFKA_BOOTSTRAP_SERVERS": "b:1"}
    return MessageCosts.of(parse_options(["--run-id=a", *flags], environment))


def poisoned(effect: Effect) -> PoisonedKey:
    """Return poison on key 14, which only offset 2 of the tests' records has."""
    return PoisonedKey(
        entity_id=14,
        effect=effect,
        from_offset_ns=22,
        until_offset_ns=23,
        attempts=3,
        hang_ns=5 * MS,
    )


def test_each_record_of_a_fetch_gets_the_draw_of_its_message() -> None:
    """One draw serves the chunks of all partitions; CPU time comes on top."""
    costs = costs_of(f"--process-ms={LOGNORMAL}", "--cpu-ms=1", "--work-seed=5")
    chunks = [chunk(0, 3), chunk(100, 1), chunk(7, 5)]

    costs.draw(chunks)

    assert costs.mean_ns == 21 * MS
    assert costs.distribution is not None
    for each in chunks:
        expected = process_ns(costs.distribution, each.events, seed=5) + MS
        assert each.costs_ns is not None
        assert np.array_equal(each.costs_ns, expected)


BEFORE, AFTER = (
    {"from_offset_ns": first, "until_offset_ns": end} for first, end in ((0, 22), (23, 99))
)


@pytest.mark.parametrize(
    ("poison", "costs_ms", "failed"),
    [
        (None, None, None),
        (poisoned("fail"), [2, 2, 6, 2], [0, 0, 3, 0]),
        (poisoned("hang"), [2, 2, 7, 2], None),
        # Planned before or after its window, a message of the key is like any other.
        (poisoned("fail").model_copy(update=BEFORE), None, None),
        (poisoned("fail").model_copy(update=AFTER), None, None),
    ],
)
def test_a_poisoned_message_costs_every_attempt_or_hangs(
    poison: PoisonedKey | None, costs_ms: list[int] | None, failed: list[int] | None
) -> None:
    """One that hangs is processed in the end; those beside it cost what they always do."""
    parts = [chunk(0, 1), chunk(1, 3)]

    costs_of("--process-ms=2", poison=poison).draw(parts)

    if costs_ms is None:
        assert [part.costs_ns for part in parts] == [None, None]
    else:
        drawn = np.concatenate([part.costs_ns for part in parts if part.costs_ns is not None])
        assert (drawn // MS).tolist() == costs_ms
    found = [part.failed_attempts for part in parts if part.failed_attempts is not None]
    assert (np.concatenate(found).tolist() if found else None) == failed
