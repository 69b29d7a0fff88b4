"""A broker that has just started or is busy is asked again, for a limited time."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lagbench.adapters.kafka import kafka_admin
from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, ask_again
from lagbench.errors import NotReady, StillWaiting


class Broker:
    """Fails by the same cause for a number of times."""

    def __init__(self, cause: Exception | None, failures: int) -> None:
        """Take the cause of each failure."""
        self.asked, self._cause, self._failures = 0, cause, failures

    def __call__(self) -> str:
        """Answer, or fail."""
        self.asked += 1
        if self.asked > self._failures:
            return "answer"
        raise NotReady("could not ask") from self._cause


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_admin, "_PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError._TIMED_OUT,
        None,
    ],
)
def test_what_passes_is_asked_again(code: int | None) -> None:
    """Each of the answers of a broker that is not there yet, or no answer in time."""
    cause = FutureTimeoutError() if code is None else KafkaException(KafkaError(code))
    broker = Broker(cause, failures=2)

    assert ask_again(broker, for_seconds=60) == "answer"
    assert broker.asked == 3


@pytest.mark.parametrize(
    ("cause", "for_seconds"),
    [
        (KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), 60),
        (None, 60),
        (KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)), -1),
    ],
)
def test_what_lasts_is_not(cause: Exception | None, for_seconds: float) -> None:
    """A missing right, a failure without a cause, and the end of the time."""
    broker = Broker(cause, failures=9)

    with pytest.raises(NotReady):
        ask_again(broker, for_seconds=for_seconds)

    assert broker.asked == 1


class GroupsClient:
    """Answers each request with the next of ``listings``: groups, and errors of brokers."""

    def __init__(self, *listings: tuple[list[str], list[int]]) -> None:
        """Take the answers, in order; the last one repeats."""
        self.listings = list(listings)

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        """Return what becomes of the request."""
        groups, codes = self.listings.pop(0) if len(self.listings) > 1 else self.listings[0]
        answer: Future[Any] = Future()
        valid = [SimpleNamespace(group_id=group) for group in groups]
        errors = [KafkaException(KafkaError(code)) for code in codes]
        answer.set_result(SimpleNamespace(valid=valid, errors=errors))
        return answer


def admin_of_groups(
    client: GroupsClient, monkeypatch: pytest.MonkeyPatch, timeout_seconds: float = 15.0
) -> KafkaAdmin:
    """Return the administration over a client."""
    admin = KafkaAdmin("127.0.0.1:1", timeout_seconds=timeout_seconds)
    monkeypatch.setattr(admin, "_client", cast("Any", client))
    return admin


def test_a_broker_that_answers_in_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups are in the list, which has those of the other brokers too."""
    client = GroupsClient(
        (["enrich.b", "other"], [KafkaError.COORDINATOR_LOAD_IN_PROGRESS]),
        (["enrich.b", "enrich.a"], []),
    )

    assert admin_of_groups(client, monkeypatch).group_ids("enrich.") == ["enrich.a", "enrich.b"]


def test_a_list_without_a_broker_s_groups_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean-up that took it for whole would leave that broker's groups for good."""
    client = GroupsClient((["enrich.a"], [KafkaError._TIMED_OUT]))

    with pytest.raises(StillWaiting):
        admin_of_groups(client, monkeypatch, timeout_seconds=0.0).group_ids("enrich.")


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
