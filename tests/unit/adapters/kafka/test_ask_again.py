"""A broker that has just started or is busy is asked again, for a limited time."""

from __future__ import annotations

from concurrent.futures import TimeoutError as FutureTimeoutError

import pytest
from confluent_kafka import KafkaError, KafkaException

from lagbench.adapters.kafka import kafka_admin
from lagbench.adapters.kafka.kafka_admin import ask_again
from lagbench.errors import NotReady


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
