"""The worker thread, as the poll thread sees it."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from lagbench.errors import NotReady
from lagbench.programs.consumer.ledger import LedgerWriter
from lagbench.programs.consumer.work_board import WorkBoard
from lagbench.programs.consumer.worker import Worker
from lagbench.programs.consumer.write_schedule import WriteSchedule


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
    board = WorkBoard(1, lambda _partition, _offset: None)
    worker = Worker(board, WriteSchedule(0, 1), cast("LedgerWriter", ledger))
    worker.start()
    try:
        assert ledger.is_asked.wait(10)

        worker.require_turning(within_seconds=30.0)
        with pytest.raises(NotReady, match=r"request has not returned for \d+ s"):
            worker.require_turning(within_seconds=0.0)
    finally:
        ledger.lets_go.set()
        worker.stop(sends_done=False)
    assert worker.failure is None
