"""A connection to Kafka's admin API on which every call is bounded and every error lagbench's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AdminClient,
    ClusterMetadata,
)

from lagbench.adapters.kafka.client_settings import own_settings
from lagbench.errors import NotReady, StillWaiting, WrongInput

_POLL_SECONDS = 0.05
# librdkafka prints each refused connection to standard error; the errors raised here say it once.
_SILENT = logging.getLogger("lagbench.librdkafka")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_WRONG_INPUT_CODES = {
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.INVALID_REQUEST,
    KafkaError.POLICY_VIOLATION,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError._INVALID_ARG,  # noqa: SLF001 - librdkafka's local codes are spelt so in its API
}

# A broker that has just started, or a topic that was just made: its leader is known in a moment.
_NO_LEADER_YET = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
}

# A broker that has just started, or is busy with a group of many members.
_PASSES = _NO_LEADER_YET | {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,  # noqa: SLF001 - librdkafka's local codes are spelt so in its API
    KafkaError._WAIT_COORD,  # noqa: SLF001
}
_PAUSE_SECONDS = 0.5

Answer = TypeVar("Answer")


def has_no_leader_yet(error: NotReady) -> bool:
    """Return whether a call failed only because a partition has no leader for a moment."""
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in _NO_LEADER_YET


def ask_again(ask: Callable[[], Answer], *, for_seconds: float) -> Answer:
    """Return Kafka's answer; ask again while it failed by what passes, for that time at most."""
    gives_up_at = time.monotonic() + for_seconds
    while True:
        try:
            return ask()
        except NotReady as error:
            cause = error.__cause__
            code = cause.args[0].code() if isinstance(cause, KafkaException) else None
            passes = code in _PASSES or isinstance(cause, FutureTimeoutError)
            if not passes or time.monotonic() > gives_up_at:
                raise
        time.sleep(_PAUSE_SECONDS)


class KafkaCalls:
    """Owns the client: waits for its answers, and maps what it raises."""

    def __init__(
        self, settings: str | Mapping[str, object], *, timeout_seconds: float = 15.0
    ) -> None:
        """Take bootstrap servers or librdkafka settings; each call ends in ``timeout_seconds``."""
        given: dict[str, Any] = (
            dict(own_settings(settings)) if isinstance(settings, str) else dict(settings)
        )
        self._servers = str(given.get("bootstrap.servers", ""))
        self._timeout_seconds = timeout_seconds
        try:
            self._client: AdminClient | None = AdminClient(given, logger=_SILENT)
        except KafkaException as error:
            raise self._mapped(error, "connect") from error

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections (librdkafka does so when the object is deleted)."""
        self._client = None

    @property
    def _open(self) -> AdminClient:
        if self._client is None:
            message = f"the connection to Kafka at {self._servers} was closed"
            raise NotReady(message)
        return self._client

    @property
    def _limits(self) -> dict[str, float]:
        return {
            "operation_timeout": self._timeout_seconds,
            "request_timeout": self._timeout_seconds,
        }

    @property
    def _patience(self) -> float:
        """The longest wait for a future: its own request ends before that."""
        return self._timeout_seconds + 5.0

    def _metadata(self, purpose: str) -> ClusterMetadata:
        try:
            return self._open.list_topics(timeout=self._timeout_seconds)
        except KafkaException as error:
            raise self._mapped(error, purpose) from error

    def _answer(self, future: Future[Answer], purpose: str) -> Answer:
        try:
            return future.result(self._patience)
        except KafkaException as error:
            raise self._mapped(error, purpose) from error
        except FutureTimeoutError as error:
            raise self._no_answer(purpose) from error

    def _each(
        self, futures: Mapping[str, Future[None]], purpose: str, *, accept: set[int]
    ) -> set[int]:
        """Await all ``futures``; return the accepted error codes that were seen."""
        seen: set[int] = set()
        for name, future in futures.items():
            try:
                future.result(self._patience)
            except KafkaException as error:
                code = error.args[0].code()
                if code not in accept:
                    raise self._mapped(error, f"{purpose} {name}") from error
                seen.add(code)
            except FutureTimeoutError as error:
                raise self._no_answer(f"{purpose} {name}") from error
        return seen

    def _poll_until(self, condition: Callable[[], tuple[bool, str]], purpose: str) -> None:
        """Ask until the condition holds: the cluster's metadata sends no notice of a change."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            holds, seen = condition()
            if holds:
                return
            if time.monotonic() > deadline:
                message = (
                    f"could not {purpose} at {self._servers} within "
                    f"{self._timeout_seconds:.0f} s: {seen}"
                )
                raise StillWaiting(message)
            time.sleep(_POLL_SECONDS)

    def _mapped(self, error: KafkaException, purpose: str) -> WrongInput | NotReady:
        cause: KafkaError = error.args[0]
        if cause.code() in _WRONG_INPUT_CODES:
            return WrongInput(
                where=f"Kafka at {self._servers}",
                field=purpose,
                value=cause.str(),
                allowed="a value that the broker's message allows",
            )
        message = (
            f"could not {purpose} at {self._servers}: {cause.name()} ({cause.str()}); "
            "check that the broker runs (lagbench status) and that the address is right"
        )
        return NotReady(message)

    def _no_answer(self, purpose: str) -> NotReady:
        return NotReady(
            f"could not {purpose} at {self._servers}: no answer in {self._patience:.0f} s"
        )
