"""Create, look at and delete topics and consumer groups; every wait is bounded in time.

Every error is one of lagbench's own, with the address and the purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AdminClient,
    ClusterMetadata,
    ConsumerGroupDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from lagbench.core.scenario.run_names import GROUP_PREFIX, TOPIC_PREFIX
from lagbench.errors import NotReady, StillWaiting, WrongInput
from pod_program.kafka_settings import SILENT, own_settings, spoken

GroupRequest = Future[ConsumerGroupDescription]
Answer = TypeVar("Answer")
BROKER_DEFAULT = -1
"""As replication factor: ``default.replication.factor`` of the broker (KIP-464, Kafka 2.4)."""
_POLL_SECONDS, _PAUSE_SECONDS = 0.05, 0.5
_SPEC: Any = OffsetSpec  # its methods carry no types

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
    KafkaError._TIMED_OUT,  # noqa: SLF001
    KafkaError._WAIT_COORD,  # noqa: SLF001
}


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create; ``configs`` are the broker's topic settings."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = 1


def ask_again(ask: Callable[[], Answer], *, for_seconds: float) -> Answer:
    """Return Kafka's answer; ask again while it failed by what passes, for that time at most."""
    gives_up_at = time.monotonic() + for_seconds
    while True:
        try:
            return ask()
        except NotReady as error:
            passes = _code(error) in _PASSES or isinstance(error.__cause__, FutureTimeoutError)
            if not passes or time.monotonic() > gives_up_at:
                raise
        time.sleep(_PAUSE_SECONDS)


def _code(error: Exception) -> int | None:
    """Return Kafka's code of the cause of an error; None: it has another cause."""
    cause = error.__cause__
    return int(cause.args[0].code()) if isinstance(cause, KafkaException) else None


class KafkaAdmin:
    """A connection for administration; use it as a context manager."""

    def __init__(
        self, settings: str | Mapping[str, object], *, timeout_seconds: float = 15.0
    ) -> None:
        """Take bootstrap servers or librdkafka settings; each call ends in ``timeout_seconds``."""
        given: dict[str, Any] = dict(
            own_settings(settings) if isinstance(settings, str) else settings
        )
        self._servers = str(given.get("bootstrap.servers", ""))
        self._timeout_seconds = timeout_seconds
        self._client = self._ask("connect", lambda: AdminClient(given, logger=SILENT))

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections (librdkafka does so when the object is deleted)."""
        self.__dict__.pop("_client", None)

    def check_reachable(self) -> int:
        """Return the number of brokers that the cluster reports; NotReady without an answer."""
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
        made = self._client.create_topics(requests, **self._limits)
        self._each(made, "create topic", accept={KafkaError.TOPIC_ALREADY_EXISTS})

        def led() -> tuple[bool, str]:
            counts, missing = self.partition_counts(wanted), []
            for name, spec in wanted.items():
                if counts.get(name) not in (None, 0, spec.partitions):
                    raise WrongInput(
                        where=f"topic {name}",
                        field="partitions",
                        value=spec.partitions,
                        allowed=f"{counts[name]}, which the existing topic has",
                    )
                answer, seen = self.leaders_answer(name, spec.partitions)
                if not answer:
                    missing.append(f"{name} ({seen})")
            return not missing, f"without all leaders: {', '.join(missing)}"

        self._poll_until(led, f"create {', '.join(wanted)}")

    def grow_topic(self, topic: str, partitions: int) -> int:
        """Give the topic ``partitions`` in total; return how many it had.

        Returns when a leader answers for each. A topic that has as many already is left as it is.
        """
        before = self.partition_counts([topic]).get(topic)
        if before is None:
            raise NotReady(f"topic {topic} does not exist on {self._servers}")
        if before != partitions:
            request = [NewPartitions(topic, partitions)]
            made = self._client.create_partitions(request, **self._limits)
            self._each(made, "grow topic", accept=set())
        purpose = f"grow {topic} to {partitions} partitions"
        self._poll_until(lambda: self.leaders_answer(topic, partitions), purpose)
        return before

    def leaders_answer(self, topic: str, partitions: int) -> tuple[bool, str]:
        """Return whether a topic has ``partitions``, each with a leader that answers; what is seen.

        Metadata name a leader before it takes messages, 190 ms before on a busy machine. A client
        that writes in between may lose a message that it calls acknowledged: the broker rejects
        the first, takes the second as the first of an unknown producer, and librdkafka takes the
        answer to the first, sent again, for that to a duplicate. The broker does so before
        version 4.5 (KAFKA-15591).
        """
        known = self._metadata("list topics").topics
        found = known[topic].partitions if topic in known else {}
        seen = f"{len(found)} partitions"
        if len(found) < partitions or any(part.leader < 0 for part in found.values()):
            return False, seen
        try:
            self.end_offsets(topic)
        except NotReady as error:
            return False, f"{seen}; {error}"
        return True, seen

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and return when no broker lists them; a missing topic is fine."""
        if not names:
            return
        gone = self._client.delete_topics(list(names), **self._limits)
        self._each(gone, "delete topic", accept={KafkaError.UNKNOWN_TOPIC_OR_PART})

        def are_gone() -> tuple[bool, str]:
            left = [name for name in names if name in self._metadata("list topics").topics]
            return not left, f"not deleted yet: {', '.join(left)}"

        self._poll_until(are_gone, f"delete {', '.join(names)}")

    def group_ids(self, prefix: str = GROUP_PREFIX) -> list[str]:
        """Return the ids of the consumer groups that begin with ``prefix``, sorted.

        Each broker lists the groups that it coordinates.
        """
        purpose, found = "list consumer groups", set[str]()

        def are_listed() -> tuple[bool, str]:
            future = self._client.list_consumer_groups(request_timeout=self._timeout_seconds)
            listing = self._answer(future, purpose)
            found.update(group.group_id for group in listing.valid)
            return not listing.errors, "; ".join(map(spoken, listing.errors))

        self._poll_until(are_listed, purpose)
        return sorted(group_id for group_id in found if group_id.startswith(prefix))

    def delete_group(self, group_id: str) -> None:
        """Delete a consumer group and its offsets; a missing group is fine."""

        def is_deleted() -> tuple[bool, str]:
            gone = self._client.delete_consumer_groups(
                [group_id], request_timeout=self._timeout_seconds
            )
            accept = {KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NON_EMPTY_GROUP}
            left = self._each(gone, "delete group", accept=accept)
            return KafkaError.NON_EMPTY_GROUP not in left, "it still has members"

        self._poll_until(is_deleted, f"delete group {group_id}")

    def describe_group(self, group_id: str) -> GroupSnapshot:
        """Return state, members and assignments of a consumer group."""
        asked = self.ask_for_group(group_id, limit_seconds=self._timeout_seconds)
        return self.group_answer(group_id, asked, wait_seconds=self._patience)

    def ask_for_group(self, group_id: str, *, limit_seconds: float) -> GroupRequest:
        """Request a group's description; the client gives up after ``limit_seconds``."""
        asked = self._client.describe_consumer_groups([group_id], request_timeout=limit_seconds)
        return asked[group_id]

    def group_answer(
        self, group_id: str, asked: GroupRequest, *, wait_seconds: float
    ) -> GroupSnapshot:
        """Return the answer; the request is under way still when ``asked`` is not done after."""
        try:
            answer = self._ask(f"describe group {group_id}", lambda: asked.result(wait_seconds))
        except NotReady as error:
            if _code(error) == KafkaError.GROUP_ID_NOT_FOUND:
                return GroupSnapshot(group_id, ConsumerGroupState.DEAD.name, "", "", ())
            raise
        return group_snapshot(answer)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition of ``topic``."""
        return self._offsets(topic, _SPEC.latest())

    def committed_end_offsets(self, topic: str) -> dict[int, int]:
        """Return, for each partition, where the first transaction that is still open begins.

        Without one that is the end. A reader of what is committed gets no further.
        """
        committed = IsolationLevel.READ_COMMITTED
        return self._offsets(topic, _SPEC.latest(), isolation_level=committed)

    def start_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of the oldest kept message of each partition of ``topic``."""
        return self._offsets(topic, _SPEC.earliest())

    def _offsets(self, topic: str, spec: OffsetSpec, **options: object) -> dict[int, int]:
        partitions, purpose = self.partition_counts([topic]).get(topic), f"read offsets of {topic}"
        if partitions is None:
            raise NotReady(f"topic {topic} does not exist on {self._servers}")
        request = {TopicPartition(topic, number): spec for number in range(partitions)}
        found: dict[int, int] = {}

        def are_read() -> tuple[bool, str]:
            futures = self._client.list_offsets(
                request, request_timeout=self._timeout_seconds, **options
            )
            for place, future in futures.items():
                try:
                    found[place.partition] = int(self._answer(future, purpose).offset)
                except NotReady as error:
                    if _code(error) not in _NO_LEADER_YET:
                        raise
                    return False, str(error)
            return True, ""

        self._poll_until(are_read, purpose)
        return found

    @property
    def _limits(self) -> dict[str, float]:
        limit = self._timeout_seconds
        return {"operation_timeout": limit, "request_timeout": limit}

    @property
    def _patience(self) -> float:
        """The longest wait for a future: its own request ends before that."""
        return self._timeout_seconds + 5.0

    def _metadata(self, purpose: str) -> ClusterMetadata:
        timeout = self._timeout_seconds
        return self._ask(purpose, lambda: self._client.list_topics(timeout=timeout))

    def _answer(self, future: Future[Answer], purpose: str) -> Answer:
        return self._ask(purpose, lambda: future.result(self._patience))

    def _each(
        self, futures: Mapping[str, Future[None]], purpose: str, *, accept: set[int]
    ) -> set[int]:
        """Await all ``futures``; return the accepted error codes that were seen."""
        seen: set[int] = set()
        for name, future in futures.items():
            try:
                self._answer(future, f"{purpose} {name}")
            except (NotReady, WrongInput) as error:
                code = _code(error)
                if code is None or code not in accept:
                    raise
                seen.add(code)
        return seen

    def _poll_until(self, condition: Callable[[], tuple[bool, str]], purpose: str) -> None:
        """Ask until the condition holds: the cluster's metadata sends no notice of a change."""
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            holds, seen = condition()
            if holds:
                return
            if time.monotonic() > deadline:
                within = f"within {self._timeout_seconds:.0f} s"
                raise StillWaiting(f"could not {purpose} at {self._servers} {within}: {seen}")
            time.sleep(_POLL_SECONDS)

    def _ask(self, purpose: str, ask: Callable[[], Answer]) -> Answer:
        """Return an answer of Kafka; ``WrongInput`` for what it rejects in principle."""
        try:
            return ask()
        except FutureTimeoutError as error:
            after = f"no answer in {self._patience:.0f} s"
            raise NotReady(f"could not {purpose} at {self._servers}: {after}") from error
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            if cause.code() in _WRONG_INPUT_CODES:
                raise WrongInput(
                    where=f"Kafka at {self._servers}",
                    field=purpose,
                    value=cause.str(),
                    allowed="a value that the broker's message allows",
                ) from error
            raise NotReady(
                f"could not {purpose} at {self._servers}: {cause.name()} ({cause.str()}); check "
                "that the broker runs (lagbench status) and that the address is right"
            ) from error


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
    """A group as its coordinator reports it; a group that does not exist has the state DEAD."""

    group_id: str
    state: str
    protocol: str
    assignor: str
    members: tuple[GroupMember, ...]

    @property
    def is_stable(self) -> bool:
        """True when the group has members and none waits for a rebalance."""
        return self.state == ConsumerGroupState.STABLE.name and bool(self.members)


def group_snapshot(description: ConsumerGroupDescription) -> GroupSnapshot:
    """Return what the client read, members in a fixed order."""
    members = [
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            instance_id=member.group_instance_id or None,
            host=member.host,
            partitions=tuple(
                sorted(
                    (place.topic, place.partition)
                    for place in getattr(member.assignment, "topic_partitions", None) or []
                )
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
