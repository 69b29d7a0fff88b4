"""The worker thread, as the poll thread sees it."""

from __future__ import annotations

import threading
import time
from typing import cast

import numpy as np
import pytest
from tests.unit.programs.consumer.records import chunk

from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import LedgerWriter
from lagbench.programs.consumer.work_queues import WorkQueues, Writes
from lagbench.programs.consumer.worker import Worker
from lagbench.programs.consumer.write_schedule import WriteSchedule
from lagbench.programs.steady_clock import SteadyClock


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
