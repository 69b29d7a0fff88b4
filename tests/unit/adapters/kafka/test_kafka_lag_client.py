"""A client whose request failed can be let go."""

from __future__ import annotations

import contextlib
import gc
import weakref
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from lagbench.adapters.kafka.kafka_lag import _end, read_partitions
from lagbench.errors import NotReady


class UnansweredAdmin:
    """Fails every request as librdkafka does."""

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        """Give an answer that never came."""
        answer: Future[Any] = Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"events": answer}


class EmptyAnswer:
    """Answers for the end of a partition as librdkafka does where the broker had no answer."""

    offset = -1001


def test_an_end_without_an_offset_is_no_reading() -> None:
    """It would be told as an end offset below zero, and make the total lag wrong."""
    answer: Future[Any] = Future()
    answer.set_result(EmptyAnswer())

    with pytest.raises(NotReady, match="the answer has no offset"):
        _end(UnansweredAdmin(), ("events", 0), answer, 0.1)  # type: ignore[arg-type]


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
