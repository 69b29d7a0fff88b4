"""A client whose request failed can be let go."""

from __future__ import annotations

import contextlib
import gc
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lagbench.adapters.kafka.kafka_lag import _end, open_admin, read_offsets, read_partitions
from lagbench.adapters.kafka.recovery import RECOVERY
from lagbench.core.keda.loop.kafka_lag import PartitionOffsets
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
