"""What poll thread and worker share."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Self, cast, get_args

import numpy as np
import pytest
from tests.unit.programs.consumer.fake_group import begun, chunk

from lagbench.core.scenario.message_costs import DownstreamPace
from lagbench.core.scenario.scenario import Work
from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import LedgerWriter
from lagbench.programs.consumer.waited_slots import WaitedSlots
from lagbench.programs.consumer.work_queues import PartitionWork, RecordChunk, WorkQueues, Writes
from lagbench.programs.consumer.worker import Worker
from lagbench.programs.consumer.write_schedule import DownstreamClock, WriteSchedule
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


def test_closing_drops_the_queue_of_the_given_up_partition_only() -> None:
    """Retained partitions continue; what arrives after a revoke is somebody else's."""
    queues = queues_with(0, 1)
    queues.offer(0, chunk(0, 10, NOW))
    queues.offer(1, chunk(0, 10, NOW))

    closing, held = queues.close([0], drops_queued=True)
    started = queues.begin_writes(WriteSchedule(0, 1), NOW, NOW)

    assert [work.partition for work in closing] == [0]
    assert held == 10
    assert {writes.work.partition for writes in started} == {1}
    for partition in (0, 5):
        assert queues.offer(partition, chunk(20, 3)) is None
    assert queues.counts() == (9, 1)


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
    assert [work.unsettled for work in queues.owned()] == [0, 2]


def test_work_begun_before_a_loss_still_reaches_the_ledger() -> None:
    """A write that was done is told, also when the partition was lost meanwhile."""
    queues = queues_with(0)
    queues.offer(0, chunk(0, 3, NOW))
    begun = queues.begin_writes(WriteSchedule(0, 1), NOW, NOW)

    queues.disown(queues.owned())
    queues.finish(begun[0])
    batches = queues.due_batches(lambda _work: True)

    assert [len(batch[0]) for batch in batches] == [3]
    queues.own([0], "member")  # comes back: a late acknowledgement is not of this assignment
    queues.acknowledge(batches[0][0].work, 3, 2)
    assert not queues.is_unsettled()
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


def test_records_are_taken_once_in_order_and_committed_after_their_acknowledgement() -> None:
    """A fetch that starts again adds only what is new; queued, in flight, done, sent: not enough.

    A revoke drops what waits; writes under way are finished.
    """
    work = PartitionWork(3, "member")

    assert [work.offer(chunk(*each)) for each in ((10, 4), (12, 2), (12, 5))] == [4, 0, 3]
    taken = [begun(work, count) for count in (3, 1, 2)]
    assert [list(each.offsets) for each in taken] == [[10, 11, 12], [13], [14, 15]]
    assert (work.queued, work.in_flight, work.committable) == (1, 6, None)
    work.drop_queued()
    assert (work.queued, work.in_flight, work.unsettled) == (0, 6, 6)
    for each in taken:
        work.finish(each)
    assert work.send_off() == taken
    assert (work.committable, work.unsettled) == (None, 6)
    work.acknowledge(6, 15)
    assert (work.committable, work.unsettled) == (16, 0)


class KeptLedger:
    """A ledger that keeps what it is given and acknowledges it at once.

    Its client returns from a request when it is let go.
    """

    def __init__(self, queues: WorkQueues) -> None:
        """Hold nothing; let everything go."""
        self._queues = queues
        self.is_asked, self.lets_go = threading.Event(), threading.Event()
        self.lets_go.set()
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
        """Stay in the request until it is let go."""
        del is_hurried
        self.is_asked.set()
        self.lets_go.wait(60)

    def flush(self, _seconds: float) -> int:
        """Have nothing to flush."""
        return 0


KINDS = {"scheduled": WriteSchedule, "waited": WaitedSlots}
each_work = pytest.mark.parametrize("work", get_args(Work))


class Working:
    """A worker at work on the partitions that it is given."""

    def __init__(
        self,
        *partitions: int,
        process_ms: int = 0,
        slots: int = 1,
        cpu_ms: int = 0,
        work: Work = "scheduled",
    ) -> None:
        """Start nothing."""
        self.queues, self.clock = queues_with(*partitions, concurrency=slots), SteadyClock()
        self.ledger = KeptLedger(self.queues)
        kind, downstream = KINDS[work], DownstreamClock(DownstreamPace())
        of_pod = kind(process_ms * MS, slots, downstream)
        ledger = cast("LedgerWriter", self.ledger)
        self.worker = Worker(self.queues, of_pod, ledger, self.clock, cpu_ns=cpu_ms * MS)

    def __enter__(self) -> Self:
        """Start the worker."""
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.ledger.lets_go.set()
        self.worker.stop(sends_done=False)

    def do(self, *chunks: tuple[int, RecordChunk]) -> None:
        """Have records of partitions done to the end."""
        for partition, records in chunks:
            assert self.queues.offer(partition, records) is not None
        assert self.queues.wait_settled(self.queues.owned(), timeout_seconds=300)


def test_a_worker_that_is_held_in_a_request_is_noticed() -> None:
    """The pod ends once a turn has lasted longer than the limit, and not before."""
    working = Working(0)
    working.ledger.lets_go.clear()
    with working:
        assert working.ledger.is_asked.wait(60)
        working.worker.require_turning(within_seconds=30.0)
        with pytest.raises(NotReady, match=r"\d+ s"):
            working.worker.require_turning(within_seconds=0.0)
    assert working.worker.failure is None


@each_work
@pytest.mark.parametrize("step_seconds", [-3600.0, 3600.0])
def test_work_goes_on_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, step_seconds: float, work: Work
) -> None:
    """A step of the wall clock delays no write, and the ledger's instants do not jump."""
    wall = time.time_ns
    with Working(0, process_ms=1, work=work) as working:
        for first in (0, 10):
            working.do((0, chunk(first, 10, working.clock.now_ns())))
            monkeypatch.setattr(time, "time_ns", lambda: wall() + round(step_seconds * 1e9))

    done_at = working.ledger.done_at
    assert len(done_at) == 20
    assert 0 < max(done_at) - min(done_at) < 600e9


@each_work
def test_a_partition_s_messages_reach_the_ledger_in_order_whatever_they_cost(work: Work) -> None:
    """A long message holds back those after it in its partition, because offsets ascend.

    It takes its cost, and a late thread makes it longer only if it is waited for.
    """
    with Working(0, process_ms=10, slots=4, work=work) as working:
        queued = chunk(0, 40, working.clock.now_ns())
        costs_ns = np.where(queued.offsets % 10 == 0, 60 * MS, 5 * MS)
        queued.costs_ns = costs_ns
        working.do((0, queued))

    assert working.ledger.offsets == list(range(40))
    assert working.ledger.done_at != sorted(working.ledger.done_at)
    took = np.subtract(working.ledger.done_at, working.ledger.started_at[0]) - costs_ns
    assert took.min() >= 0
    assert bool(took.max() > 0) is (work == "waited")


@each_work
def test_messages_that_burn_cpu_begin_in_order(work: Work) -> None:
    """On a busy machine a burn may take long: in each partition offsets still begin in order."""
    with Working(0, 1, process_ms=2, slots=3, cpu_ms=1, work=work) as working:
        now = working.clock.now_ns()
        working.do((0, chunk(0, 120, now)), (1, chunk(0, 10, now)))

    started_at = working.ledger.started_at
    assert [len(started_at[partition]) for partition in (0, 1)] == [120, 10]
    assert all(starts == sorted(starts) for starts in started_at.values())
