"""What the poll thread makes of fetched messages."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Message
from tests.unit.programs.consumer.records import chunk

from lagbench.programs.consumer.pod import chunk_of, queue_records

VALUES = [bytes(event) for event in chunk(10, 4).events]


def message(offset: int, value: bytes | None) -> Message:
    """Return a message as the client hands it over."""
    return Message(topic="events", partition=3, offset=offset, value=cast("Any", value))


def test_messages_become_one_chunk() -> None:
    """Offsets and events keep their order."""
    found = chunk_of([message(10 + i, VALUES[i]) for i in range(4)], arrived_at=5)

    assert found is not None
    assert list(found.offsets) == [10, 11, 12, 13]
    assert list(found.events["seq"]) == [1010, 1011, 1012, 1013]


@pytest.mark.parametrize("stranger", [None, b"", b"x" * 255, b"x" * 512])
def test_records_that_are_no_events_are_skipped(stranger: bytes | None) -> None:
    """A foreign record neither stops the pod nor shifts its neighbours."""
    found = chunk_of([message(10, VALUES[0]), message(11, stranger), message(12, VALUES[2])], 5)

    assert found is not None
    assert list(found.offsets) == [10, 12]
    assert chunk_of([message(11, stranger)], 5) is None


@pytest.mark.parametrize(
    ("process_ms", "concurrency", "records"),
    [(2, 1, 250), (2, 8, 2000), (0, 1, 4000), (0.01, 64, 4000), (60_000, 1, 200)],
)
def test_a_queue_holds_half_a_second_of_work(
    process_ms: float, concurrency: int, records: int
) -> None:
    """Queues are bounded by work, between 200 and 4000 records."""
    assert queue_records(process_ms, concurrency) == records
