"""What poll thread and worker share."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
from tests.unit.programs.consumer.records import chunk

from lagbench.programs.consumer.work_queues import PartitionWork, WorkQueues, Writes
from lagbench.programs.consumer.write_schedule import WriteSchedule

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
