"""What poll thread and worker share."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import cast

import numpy as np
import pytest
from tests.unit.programs.consumer.fake_group import chunk

from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import LedgerWriter
from lagbench.programs.consumer.work_queues import PartitionWork, WorkQueues, Writes
from lagbench.programs.consumer.worker import Worker
from lagbench.programs.consumer.write_schedule import WriteSchedule
from pod_program.steady_clock import SteadyClock

MS = 1_000_000

NOW = 1_000_000 * MS


def queues_with(*partitions: int, concurrency: int = 1) -> WorkQueues:
    """Hold some partitions."""
    queues = WorkQueues(concurrency, lambda _partition, _offset: None)
    queues.own(partitions, "member")
    return queues


def finish(queues: WorkQueues, begun: list[Writes]) -> None:
    """Do, send and acknowledge everything begun."""
    for writes in begun:
        queues.finish(writes)
    for batch in queues.due_batches(lambda _work: True):
        count = sum(len(writes) for writes in batch)
        queues.acknowledge(batch[0].work, count, int(batch[-1].offsets[-1]))


def test_partitions_take_turns() -> None:
    """Work is spread over the partitions that have some, also when one has far more."""
    queues = queues_with(0, 1, 2)
    queues.offer(0, chunk(0, 5000, NOW))
    queues.offer(1, chunk(0, 40, NOW))
    queues.offer(2, chunk(0, 40, NOW))
    schedule, started = WriteSchedule(1 * MS, 1), Counter[int]()

    for turn in range(6):
        now = NOW + turn * 20 * MS
        for writes in queues.begin_writes(schedule, now + 20 * MS, now):
            started[writes.work.partition] += len(writes)

    assert sum(started.values()) == 120
    assert max(started.values()) - min(started.values()) <= 7


def test_records_of_a_partition_that_is_not_held_are_refused() -> None:
    """What arrives after a revoke is somebody else's."""
    queues = queues_with(0)

    assert queues.offer(5, chunk(0, 3)) is None
    assert queues.counts().queued == 0


def test_closing_drops_the_queue_of_the_given_up_partition_only() -> None:
    """Retained partitions keep their queue and continue."""
    queues = queues_with(0, 1)
    queues.offer(0, chunk(0, 10, NOW))
    queues.offer(1, chunk(0, 10, NOW))

    closing, held = queues.close([0], drops_queued=True)
    begun = queues.begin_writes(WriteSchedule(0, 1), NOW, NOW)

    assert [work.partition for work in closing] == [0]
    assert held == 10
    assert {writes.work.partition for writes in begun} == {1}


def test_a_revoke_waits_for_work_in_flight_and_nothing_else() -> None:
    """Waiting ends with the partition's own acknowledgement while others are unfinished."""
    queues = queues_with(0, 1)
    queues.offer(0, chunk(0, 2, NOW))
    queues.offer(1, chunk(0, 2, NOW))
    begun = queues.begin_writes(WriteSchedule(0, 1), NOW, NOW)
    closing, _ = queues.close([0], drops_queued=True)

    assert not queues.wait_settled(closing, 0.01)
    mine = [writes for writes in begun if writes.work.partition == 0]
    worker = threading.Thread(target=finish, args=(queues, mine))
    worker.start()

    assert queues.wait_settled(closing, 5)
    worker.join()
    assert closing[0].committable == 2
    assert queues.counts().unsettled == 2


def test_work_begun_before_a_loss_still_reaches_the_ledger() -> None:
    """A write that was done is told, also when the partition was lost meanwhile."""
    queues = queues_with(0)
    queues.offer(0, chunk(0, 3, NOW))
    begun = queues.begin_writes(WriteSchedule(0, 1), NOW, NOW)

    queues.disown(queues.owned())
    queues.finish(begun[0])
    batches = queues.due_batches(lambda _work: True)

    assert [len(batch[0]) for batch in batches] == [3]
    queues.acknowledge(batches[0][0].work, 3, 2)
    assert not queues.is_unsettled()


def test_late_acknowledgements_do_not_touch_a_later_assignment() -> None:
    """A partition that comes back starts with nothing to commit."""
    queues = queues_with(0)
    queues.offer(0, chunk(0, 3, NOW))
    begun = queues.begin_writes(WriteSchedule(0, 1), NOW, NOW)
    queues.disown(queues.owned())
    queues.own([0], "member")

    finish(queues, begun)

    assert queues.owned()[0].committable is None


def test_in_flight_is_never_more_than_the_concurrency() -> None:
    """Writes planned a turn ahead have not begun for anybody who asks."""
    queues = queues_with(0, concurrency=2)
    queues.offer(0, chunk(0, 50, NOW))

    queues.begin_writes(WriteSchedule(1 * MS, 2), NOW + 10 * MS, NOW)

    assert queues.counts().in_flight == 2
    assert queues.counts().queued == 48


def test_a_wake_up_before_the_sleep_is_not_lost() -> None:
    """The worker hears of a closing partition also when it was not asleep yet."""
    queues = queues_with(0)
    queues.wake()
    slept = threading.Event()

    def sleep() -> None:
        queues.wait_for_work(30, is_idle=True)
        slept.set()

    threading.Thread(target=sleep, daemon=True).start()

    assert slept.wait(60)


def begun(work: PartitionWork, count: int) -> Writes:
    """Begin ``count`` writes of 5 ns."""
    offsets, events = work.begin(count)
    instants = np.arange(count, dtype=np.int64)
    return Writes(work, offsets, events, instants, instants + 5)


def test_records_leave_the_queue_in_order() -> None:
    """Order within a partition is kept across chunks."""
    work = PartitionWork(3, "member")
    work.offer(chunk(10, 4))
    work.offer(chunk(14, 2))

    taken = [list(work.begin(count)[0]) for count in (3, 1, 2)]

    assert taken == [[10, 11, 12], [13], [14, 15]]
    assert (work.queued, work.in_flight) == (0, 6)


def test_records_seen_before_are_not_queued_again() -> None:
    """A fetch that starts again before the end of the queue adds only what is new."""
    work = PartitionWork(3, "member")
    work.offer(chunk(10, 4))

    assert work.offer(chunk(12, 2)) == 0
    assert work.offer(chunk(12, 5)) == 3
    assert work.queued == 7
    work.begin(4)
    assert list(work.begin(3)[0]) == [14, 15, 16]


def test_an_offset_is_committable_only_after_its_acknowledgement() -> None:
    """Queued, in flight, done and sent are all not enough."""
    work = PartitionWork(3, "member")
    work.offer(chunk(10, 4))
    seen = [work.committable]
    writes = begun(work, 4)
    seen.append(work.committable)
    work.finish(writes)
    seen.append(work.committable)
    work.send_off()
    seen.append(work.committable)

    work.acknowledge(4, 13)

    assert seen == [None] * 4
    assert work.committable == 14
    assert work.unsettled == 0


def test_dropping_the_queue_keeps_what_has_begun() -> None:
    """A revoke drops what waits; writes under way are finished."""
    work = PartitionWork(3, "member")
    work.offer(chunk(10, 4))
    begun(work, 1)

    assert work.drop_queued() == 3
    assert (work.queued, work.in_flight, work.unsettled) == (0, 1, 1)


class HeldLedger:
    """A ledger whose client does not return from a request until it is let go."""

    def __init__(self) -> None:
        """Nothing is asked yet."""
        self.is_asked = threading.Event()
        self.lets_go = threading.Event()

    def serve(self, *, is_hurried: bool) -> None:
        """Stay in the request."""
        del is_hurried
        self.is_asked.set()
        self.lets_go.wait(60)

    def flush(self, _seconds: float) -> None:
        """Have nothing to flush."""


def test_a_worker_that_is_held_in_a_request_is_noticed() -> None:
    """The pod ends once a turn has lasted longer than the limit, and not before."""
    ledger = HeldLedger()
    queues = WorkQueues(1, lambda _partition, _offset: None)
    worker = Worker(queues, WriteSchedule(0, 1), cast("LedgerWriter", ledger), SteadyClock())
    worker.start()
    try:
        assert ledger.is_asked.wait(60)

        worker.require_turning(within_seconds=30.0)
        with pytest.raises(NotReady, match=r"\d+ s"):
            worker.require_turning(within_seconds=0.0)
    finally:
        ledger.lets_go.set()
        worker.stop(sends_done=False)
    assert worker.failure is None


class KeptLedger:
    """A ledger that keeps what it is given and acknowledges it at once."""

    def __init__(self, queues: WorkQueues) -> None:
        """Hold nothing."""
        self._queues = queues
        self.done_at: list[int] = []
        self.offsets: list[int] = []
        self.started_at: dict[int, list[int]] = {}

    def send(self, batch: list[Writes]) -> None:
        """Keep a batch."""
        for writes in batch:
            self.done_at += writes.done_at.tolist()
            self.offsets += writes.offsets.tolist()
            starts = self.started_at.setdefault(writes.work.partition, [])
            starts += writes.started_at.tolist()
            self._queues.acknowledge(writes.work, len(writes), int(writes.offsets[-1]))

    def serve(self, *, is_hurried: bool) -> None:
        """Have nothing to serve."""

    def flush(self, _seconds: float) -> int:
        """Have nothing to flush."""
        return 0


@pytest.mark.parametrize("step_seconds", [-3600.0, 3600.0])
def test_work_goes_on_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    """A step of the wall clock delays no write, and the ledger's instants do not jump."""
    queues = WorkQueues(1, lambda _partition, _offset: None)
    ledger = KeptLedger(queues)
    clock = SteadyClock()
    worker = Worker(queues, WriteSchedule(1_000_000, 1), cast("LedgerWriter", ledger), clock)
    queues.own([0], "member-1")
    wall = time.time_ns
    worker.start()
    try:
        for first in (0, 10):
            work = queues.offer(0, chunk(first, 10, clock.now_ns()))
            assert work is not None
            assert queues.wait_settled([work], timeout_seconds=60)
            monkeypatch.setattr(time, "time_ns", lambda: wall() + round(step_seconds * 1e9))
    finally:
        worker.stop(sends_done=False)

    assert len(ledger.done_at) == 20
    assert 0 < max(ledger.done_at) - min(ledger.done_at) < 600e9


def test_a_partition_s_messages_reach_the_ledger_in_order_whatever_they_cost() -> None:
    """A long message holds back those after it in its partition, because offsets ascend."""
    queues = WorkQueues(4, lambda _partition, _offset: None)
    ledger = KeptLedger(queues)
    clock = SteadyClock()
    worker = Worker(queues, WriteSchedule(10_000_000, 4), cast("LedgerWriter", ledger), clock)
    queues.own([0], "member-1")
    queued = chunk(0, 40, clock.now_ns())
    queued.costs_ns = np.where(queued.offsets % 10 == 0, 60_000_000, 5_000_000)
    worker.start()
    try:
        work = queues.offer(0, queued)
        assert work is not None
        assert queues.wait_settled([work], timeout_seconds=300.0)
    finally:
        worker.stop(sends_done=False)

    assert ledger.offsets == list(range(40))
    assert ledger.done_at != sorted(ledger.done_at)


def test_messages_that_burn_cpu_begin_in_order() -> None:
    """On a busy machine a burn may take long: in each partition offsets still begin in order."""
    queues = WorkQueues(3, lambda _partition, _offset: None)
    ledger = KeptLedger(queues)
    clock = SteadyClock()
    schedule = WriteSchedule(2_000_000, 3)
    worker = Worker(queues, schedule, cast("LedgerWriter", ledger), clock, cpu_ns=1_000_000)
    queues.own([0, 1], "member-1")
    worker.start()
    try:
        for partition, count in ((0, 120), (1, 10)):
            assert queues.offer(partition, chunk(0, count, clock.now_ns())) is not None
        assert queues.wait_settled(queues.owned(), timeout_seconds=300.0)
    finally:
        worker.stop(sends_done=False)

    assert [len(ledger.started_at[partition]) for partition in (0, 1)] == [120, 10]
    assert all(starts == sorted(starts) for starts in ledger.started_at.values())
