"""A broker that has just started or is busy is asked again, for a limited time."""

from __future__ import annotations

from collections.abc import Callable
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


class OneClient:
    """Answers each request with the next of ``answers``; the last one repeats."""

    def __init__(self, *answers: Any) -> None:
        """Take the answers, in order: groups with errors of brokers, or an offset or its error."""
        self.answers = list(answers)

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        """Return what becomes of the request."""
        groups, codes = self._next()
        answer: Future[Any] = Future()
        valid = [SimpleNamespace(group_id=group) for group in groups]
        errors = [KafkaException(KafkaError(code)) for code in codes]
        answer.set_result(SimpleNamespace(valid=valid, errors=errors))
        return answer

    def list_offsets(self, request: dict[TopicPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        """Return what becomes of the request: offset 7, or an error."""
        code = self._next()
        answer: Future[Any] = Future()
        if code is None:
            answer.set_result(SimpleNamespace(offset=7))
        else:
            answer.set_exception(KafkaException(KafkaError(code)))
        return dict.fromkeys(request, answer)

    def _next(self) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def admin_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., KafkaAdmin]:
    """Make the administration of a topic ``t`` with one partition, over a client's answers."""

    def make(*answers: Any, timeout_seconds: float = 15.0) -> KafkaAdmin:
        admin = KafkaAdmin("127.0.0.1:1", timeout_seconds=timeout_seconds)
        monkeypatch.setattr(admin, "_client", cast("Any", OneClient(*answers)))
        monkeypatch.setattr(admin, "partition_counts", lambda _: {"t": 1})
        return admin

    return make


Made = Callable[..., KafkaAdmin]


def test_a_broker_that_answers_in_a_moment_is_waited_for(admin_of: Made) -> None:
    """Its groups are in the list, which has those of the other brokers too.

    A clean-up that took a part for the whole would leave that broker's groups for good.
    """
    part = (["enrich.b", "other"], [KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
    admin = admin_of(part, (["enrich.b", "enrich.a"], []))

    assert admin.group_ids("enrich.") == ["enrich.a", "enrich.b"]
    with pytest.raises(StillWaiting):
        admin_of(part, timeout_seconds=0.0).group_ids("enrich.")


def test_a_leader_that_comes_in_a_moment_is_waited_for(admin_of: Made) -> None:
    """After the start of a broker its first answers say that it does not lead yet.

    The limit of the call holds; what time does not mend is reported at once.
    """
    soon = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION, None)

    assert admin_of(*soon).end_offsets("t") == {0: 7}
    with pytest.raises(StillWaiting, match="LEADER_NOT_AVAILABLE"):
        admin_of(KafkaError.LEADER_NOT_AVAILABLE, timeout_seconds=0.0).end_offsets("t")
    with pytest.raises(NotReady, match="TOPIC_AUTHORIZATION_FAILED"):
        admin_of(KafkaError.TOPIC_AUTHORIZATION_FAILED).end_offsets("t")


@pytest.mark.parametrize(
    ("leaders", "code", "answer"),
    [
        ([1, 1], None, True),
        ([1, 1, 1], None, True),
        ([1], None, False),
        ([1, -1], None, False),
        ([1, 1], KafkaError.NOT_LEADER_FOR_PARTITION, False),
    ],
    ids=["led", "more than asked", "too few", "one without a leader", "named, but not yet leading"],
)
def test_a_partition_is_ready_when_its_leader_answers(
    monkeypatch: pytest.MonkeyPatch,
    admin_of: Made,
    leaders: list[int],
    code: int | None,
    answer: bool,
) -> None:
    """Metadata that name a leader are not enough: it takes messages a moment later."""
    admin = admin_of(code, timeout_seconds=0.0)
    partitions = {number: SimpleNamespace(leader=leader) for number, leader in enumerate(leaders)}
    metadata = SimpleNamespace(topics={"t": SimpleNamespace(partitions=partitions)})
    monkeypatch.setattr(admin, "_metadata", lambda _: metadata)

    assert admin.leaders_answer("t", 2)[0] is answer
    assert admin.leaders_answer("other", 1)[0] is False
