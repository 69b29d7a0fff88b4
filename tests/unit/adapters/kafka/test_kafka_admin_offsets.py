"""Offsets of a topic are read through the moment in which a partition has no leader."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.errors import NotReady, StillWaiting


class OffsetsClient:
    """Answers each request for offsets with the next of ``codes``; none left: offset 7."""

    def __init__(self, codes: Iterable[int]) -> None:
        """Take the errors, in order."""
        self.codes = list(codes)

    def list_offsets(self, request: dict[TopicPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        """Return what becomes of the request."""
        answer: Future[Any] = Future()
        if self.codes:
            answer.set_exception(KafkaException(KafkaError(self.codes.pop(0))))
        else:
            answer.set_result(SimpleNamespace(offset=7))
        return dict.fromkeys(request, answer)


def admin_of_topic(
    client: OffsetsClient, monkeypatch: pytest.MonkeyPatch, timeout_seconds: float = 15.0
) -> KafkaAdmin:
    """Return the administration of a topic ``t`` with one partition, over a client."""
    admin = KafkaAdmin("127.0.0.1:1", timeout_seconds=timeout_seconds)
    monkeypatch.setattr(admin, "_client", cast("Any", client))
    monkeypatch.setattr(admin, "partition_counts", lambda _: {"t": 1})
    return admin


def test_a_leader_that_comes_in_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the start of a broker its first answers say that it does not lead yet."""
    client = OffsetsClient([KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION])

    assert admin_of_topic(client, monkeypatch).end_offsets("t") == {0: 7}


def test_a_leader_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the call holds, and the message has the broker's reason."""
    client = OffsetsClient([KafkaError.LEADER_NOT_AVAILABLE] * 1000)

    with pytest.raises(StillWaiting, match="LEADER_NOT_AVAILABLE"):
        admin_of_topic(client, monkeypatch, timeout_seconds=0.0).end_offsets("t")


def test_another_error_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What time does not mend is said at once."""
    client = OffsetsClient([KafkaError.TOPIC_AUTHORIZATION_FAILED])

    with pytest.raises(NotReady, match="TOPIC_AUTHORIZATION_FAILED"):
        admin_of_topic(client, monkeypatch).end_offsets("t")


@pytest.mark.parametrize(
    ("leaders", "codes", "answer"),
    [
        ([1, 1], [], True),
        ([1, 1, 1], [], True),
        ([1], [], False),
        ([1, -1], [], False),
        ([1, 1], [KafkaError.NOT_LEADER_FOR_PARTITION] * 1000, False),
    ],
    ids=["led", "more than asked", "too few", "one without a leader", "named, but not yet leading"],
)
def test_a_partition_is_ready_when_its_leader_answers(
    monkeypatch: pytest.MonkeyPatch, leaders: list[int], codes: list[int], answer: bool
) -> None:
    """Metadata that name a leader are not enough: it takes messages a moment later."""
    admin = admin_of_topic(OffsetsClient(codes), monkeypatch, timeout_seconds=0.0)
    partitions = {number: SimpleNamespace(leader=leader) for number, leader in enumerate(leaders)}
    metadata = SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})
    monkeypatch.setattr(admin, "_metadata", lambda _: metadata)

    assert admin.leaders_answer("t", 2)[0] is answer
    assert admin.leaders_answer("other", 1)[0] is False
