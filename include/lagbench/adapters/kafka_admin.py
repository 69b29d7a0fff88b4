"""Create, look at and delete topics and consumer groups; every wait is bounded in time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AdminClient,
    ClusterMetadata,
    ConsumerGroupDescription,
    NewTopic,
    OffsetSpec,
)

from lagbench.core.run import GROUP_PREFIX, TOPIC_PREFIX
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

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create; ``configs`` are the broker's topic settings."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = 1


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group and its partitions as (topic, partition), ascending."""

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """What the coordinator says of a group; a group that does not exist has the state DEAD."""

    group_id: str
    state: str
    protocol: str
    assignor: str
    members: tuple[GroupMember, ...]

    @property
    def is_stable(self) -> bool:
        """True when the group has members and none waits for a rebalance."""
        return self.state == ConsumerGroupState.STABLE.name and bool(self.members)


class KafkaAdmin:
    """A connection for administration; use it as a context manager."""

    def __init__(
        self, settings: str | Mapping[str, object], *, timeout_seconds: float = 15.0
    ) -> None:
        """Take bootstrap servers or librdkafka settings; each call ends in ``timeout_seconds``."""
        given: dict[str, Any] = {"bootstrap.servers": settings}
        if not isinstance(settings, str):
            given = dict(settings)
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
        """Close the connections (librdkafka does so when the object is gone)."""
        self._client = None

    def check_reachable(self) -> int:
        """Return the number of brokers that the cluster names; NotReady when nobody answers."""
        brokers = len(self._metadata("reach the cluster").brokers)
        if brokers == 0:
            message = f"Kafka at {self._servers} answered, but has no broker in service yet"
            raise NotReady(message)
        return brokers

    def topic_names(self, prefix: str = TOPIC_PREFIX) -> list[str]:
        """Return the names of the topics that begin with ``prefix``, sorted."""
        topics = self._metadata("list topics").topics
        return sorted(name for name in topics if name.startswith(prefix))

    def partition_counts(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of partitions of those ``topics`` that exist."""
        known = self._metadata("list topics").topics
        return {name: len(known[name].partitions) for name in topics if name in known}

    def create_topics(self, specs: Sequence[TopicSpec]) -> None:
        """Create topics and return when all partitions have a leader.

        A topic that exists with the same number of partitions is left as it is.
        """
        wanted = {spec.name: spec for spec in specs}
        if not wanted:
            return
        requests = [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=spec.replication_factor,
                config=dict(spec.configs),
            )
            for spec in wanted.values()
        ]
        self._each(
            self._open.create_topics(requests, **self._limits),
            "create topic",
            accept={KafkaError.TOPIC_ALREADY_EXISTS},
        )

        def led() -> tuple[bool, str]:
            known = self._metadata("list topics").topics
            missing = []
            for name, spec in wanted.items():
                partitions = known[name].partitions if name in known else {}
                if partitions and len(partitions) != spec.partitions:
                    raise WrongInput(
                        where=f"topic {name}",
                        field="partitions",
                        value=spec.partitions,
                        allowed=f"{len(partitions)}, which the existing topic has",
                    )
                if not partitions or any(part.leader < 0 for part in partitions.values()):
                    missing.append(name)
            return not missing, f"without all leaders: {', '.join(missing)}"

        self._poll_until(led, f"create {', '.join(wanted)}")

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and return when no broker lists them; a topic that is gone is fine."""
        if not names:
            return
        self._each(
            self._open.delete_topics(list(names), **self._limits),
            "delete topic",
            accept={KafkaError.UNKNOWN_TOPIC_OR_PART},
        )

        def gone() -> tuple[bool, str]:
            known = self._metadata("list topics").topics
            left = [name for name in names if name in known]
            return not left, f"still there: {', '.join(left)}"

        self._poll_until(gone, f"delete {', '.join(names)}")

    def group_ids(self, prefix: str = GROUP_PREFIX) -> list[str]:
        """Return the ids of the consumer groups that begin with ``prefix``, sorted."""
        future = self._open.list_consumer_groups(request_timeout=self._timeout_seconds)
        listing = self._answer(future, "list consumer groups")
        return sorted(g.group_id for g in listing.valid if g.group_id.startswith(prefix))

    def delete_group(self, group_id: str) -> None:
        """Delete a consumer group and its offsets; a group that is gone is fine.

        :raises StillWaiting: members stayed in the group until the time limit.
        """

        def deleted() -> tuple[bool, str]:
            futures = self._open.delete_consumer_groups(
                [group_id], request_timeout=self._timeout_seconds
            )
            left = self._each(
                futures,
                "delete group",
                accept={KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NON_EMPTY_GROUP},
            )
            has_members = KafkaError.NON_EMPTY_GROUP in left
            return not has_members, "it still has members"

        self._poll_until(deleted, f"delete group {group_id}")

    def describe_group(self, group_id: str) -> GroupSnapshot:
        """Return state, members and assignments of a consumer group."""
        futures = self._open.describe_consumer_groups(
            [group_id], request_timeout=self._timeout_seconds
        )
        try:
            description: ConsumerGroupDescription = futures[group_id].result(self._patience)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return GroupSnapshot(group_id, ConsumerGroupState.DEAD.name, "", "", ())
            raise self._mapped(error, f"describe group {group_id}") from error
        except FutureTimeoutError as error:
            raise self._no_answer(f"describe group {group_id}") from error
        return _snapshot(description)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition of ``topic``."""
        return self._offsets(topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def start_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of the oldest kept message of each partition of ``topic``."""
        return self._offsets(topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        partitions = self.partition_counts([topic]).get(topic)
        if partitions is None:
            message = f"topic {topic} does not exist on {self._servers}"
            raise NotReady(message)
        request = {TopicPartition(topic, number): spec for number in range(partitions)}
        futures = self._open.list_offsets(request, request_timeout=self._timeout_seconds)
        return {
            place.partition: int(self._answer(future, f"read offsets of {topic}").offset)
            for place, future in futures.items()
        }

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
        """How long to wait for a future: its own request ends before that."""
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
                allowed="what the broker's message asks for",
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


def _snapshot(description: ConsumerGroupDescription) -> GroupSnapshot:
    members = [
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            instance_id=member.group_instance_id or None,
            host=member.host,
            partitions=tuple(
                sorted((place.topic, place.partition) for place in _assigned(member.assignment))
            ),
        )
        for member in description.members
    ]
    return GroupSnapshot(
        group_id=description.group_id,
        state=description.state.name,
        protocol=description.type.name,
        assignor=description.partition_assignor,
        members=tuple(sorted(members, key=lambda member: (member.client_id, member.member_id))),
    )


def _assigned(assignment: object) -> list[TopicPartition]:
    return list(getattr(assignment, "topic_partitions", None) or [])
