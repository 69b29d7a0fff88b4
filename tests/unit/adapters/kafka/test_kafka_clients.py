"""A client whose request failed can be let go."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lagbench.adapters.kafka.kafka_connections import RECOVERY
from lagbench.adapters.kafka.kafka_lag import _end, open_admin, read_offsets, read_partitions
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.telemetry.records_of_programs import GroupJoined
from lagbench.errors import NotReady


class UnansweredAdmin:
    """Fails every request as librdkafka does."""

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        """Give an answer that never came."""
        answer: Future[Any] = Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"events": answer}


def test_a_client_for_lag_looks_for_a_new_leader_soon_after_an_outage() -> None:
    """Its consumers have the same settings; the caller's own settings come before them."""
    assert open_admin("127.0.0.1:1")._settings.items() >= RECOVERY.items()
    given = open_admin("127.0.0.1:1", {"reconnect.backoff.max.ms": 2_000})
    assert given._settings["reconnect.backoff.max.ms"] == 2_000


class EmptyAnswer:
    """Answers for the end of a partition as librdkafka does where the broker had no answer."""

    offset = -1001


def test_an_end_without_an_offset_is_no_reading() -> None:
    """It would be told as an end offset below zero, and make the total lag wrong."""
    answer: Future[Any] = Future()
    answer.set_result(EmptyAnswer())

    with pytest.raises(NotReady):
        _end(UnansweredAdmin(), ("events", 0), answer, 0.1)  # type: ignore[arg-type]


class StartlessAdmin:
    """Has the end of a partition, no commit, and for its start an answer without an offset."""

    def __init__(self) -> None:
        """Hold five messages."""
        self.answers: list[object] = [SimpleNamespace(offset=5), EmptyAnswer()]

    def list_offsets(self, request: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        """Give the end to the first request, and nothing to the second."""
        answer: Future[Any] = Future()
        answer.set_result(self.answers.pop(0))
        return dict.fromkeys(request, answer)

    def consumer_of(self, _group: str) -> StartlessAdmin:
        """Be the consumer too."""
        return self

    def committed(self, places: list[TopicPartition], **_: object) -> list[TopicPartition]:
        """Return the places without an offset."""
        return places


def test_a_start_without_an_offset_is_not_known() -> None:
    """As a start of -1001 it would make 5 messages a lag of 1006."""
    admin: Any = StartlessAdmin()

    found = read_offsets(admin, "enrich", [("events", 0)], wants_earliest=lambda _: True)

    assert found == {("events", 0): PartitionOffsets(end=5, committed=None, earliest=None)}


def fail_once(admin: Any) -> None:
    """Ask, and forget the error."""
    with contextlib.suppress(NotReady):
        read_partitions(admin, "events", timeout_seconds=0.1)


def test_a_failed_request_does_not_keep_its_client() -> None:
    """The client ends with its last user: each has threads and connections of its own."""
    admin = UnansweredAdmin()
    client = weakref.ref(admin)
    gc.disable()
    try:
        fail_once(admin)
        del admin

        assert client() is None
    finally:
        gc.enable()


NOBODY = "127.0.0.1:1"


def test_sending_without_a_broker_returns_at_once() -> None:
    """Records wait in the queue; nothing is dropped, nothing fails."""
    log = TelemetryLog(NOBODY, "telemetry")
    began = time.monotonic()

    for at in range(100):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    assert time.monotonic() - began < 30
    assert log.dropped == 0


def test_a_full_queue_drops_and_counts() -> None:
    """A record that does not fit is counted, never raised into the sender's work."""
    log = TelemetryLog(NOBODY, "telemetry", queue_records=10)

    for at in range(25):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    assert log.dropped == 15


def test_a_flush_that_leaves_records_is_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says how many records are missing and where: the records themselves cannot."""
    log = TelemetryLog(NOBODY, "telemetry-7", queue_records=10)
    for at in range(12):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    log.flush(0.1)

    (error,) = [found for found in caplog.records if found.levelname == "ERROR"]
    assert error.args == ("telemetry-7", "127.0.0.1:1", 2, 10, 0.1)


def test_a_flush_that_delivers_everything_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Also after an earlier flush has told what was dropped."""
    log = TelemetryLog(NOBODY, "telemetry")
    assert log.flush(0.1) == 0
    assert caplog.records == []

    log.dropped = 3
    for _ in range(2):
        assert log.flush(0.1) == 0

    assert [found.levelname for found in caplog.records] == ["ERROR"]
