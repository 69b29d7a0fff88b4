"""One partition's records from queued to acknowledged."""

from __future__ import annotations

import numpy as np
from tests.unit.programs.consumer.records import chunk

from lagbench.programs.consumer.partition_work import PartitionWork, Writes


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
