"""Create, look at and delete topics and consumer groups; every wait is bounded in time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field

from confluent_kafka import (
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    ConsumerGroupDescription,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from lagbench.adapters.kafka.kafka_calls import KafkaCalls, has_no_leader_yet
from lagbench.adapters.kafka.kafka_connections import spoken
from lagbench.adapters.kafka.kafka_groups import GroupSnapshot, group_snapshot
from lagbench.core.scenario import GROUP_PREFIX, TOPIC_PREFIX
from lagbench.errors import NotReady, WrongInput

GroupRequest = Future[ConsumerGroupDescription]


BROKER_DEFAULT = -1
"""As replication factor: ``default.replication.factor`` of the broker (KIP-464, Kafka 2.4)."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create; ``configs`` are the broker's topic settings."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    replication_factor: int = 1


class KafkaAdmin(KafkaCalls):
    """A connection for administration; use it as a context manager."""

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
        """Create topics and return when all partitions have a leader."""
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
                answer, seen = self.leaders_answer(name, spec.partitions)
                if not answer:
                    missing.append(f"{name} ({seen})")
            return not missing, f"without all leaders: {', '.join(missing)}"

        self._poll_until(led, f"create {', '.join(wanted)}")

    def grow_topic(self, topic: str, partitions: int) -> int:
        """Give the topic ``partitions`` in total; return how many it had."""
        before = self.partition_counts([topic]).get(topic)
        if before is None:
            raise NotReady(f"topic {topic} does not exist on {self._servers}")
        if before != partitions:
            request = [NewPartitions(topic, partitions)]
            self._each(
                self._open.create_partitions(request, **self._limits), "grow topic", accept=set()
            )

        self._poll_until(
            lambda: self.leaders_answer(topic, partitions),
            f"grow {topic} to {partitions} partitions",
        )
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
        self._each(
            self._open.delete_topics(list(names), **self._limits),
            "delete topic",
            accept={KafkaError.UNKNOWN_TOPIC_OR_PART},
        )

        def gone() -> tuple[bool, str]:
            known = self._metadata("list topics").topics
            left = [name for name in names if name in known]
            return not left, f"not deleted yet: {', '.join(left)}"

        self._poll_until(gone, f"delete {', '.join(names)}")

    def group_ids(self, prefix: str = GROUP_PREFIX) -> list[str]:
        """Return the ids of the consumer groups that begin with ``prefix``, sorted."""
        purpose, found = "list consumer groups", set[str]()

        def are_listed() -> tuple[bool, str]:
            future = self._open.list_consumer_groups(request_timeout=self._timeout_seconds)
            listing = self._answer(future, purpose)
            found.update(group.group_id for group in listing.valid)
            return not listing.errors, "; ".join(map(spoken, listing.errors))

        self._poll_until(are_listed, purpose)
        return sorted(group_id for group_id in found if group_id.startswith(prefix))

    def delete_group(self, group_id: str) -> None:
        """Delete a consumer group and its offsets; a missing group is fine."""

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
        asked = self.ask_for_group(group_id, limit_seconds=self._timeout_seconds)
        return self.group_answer(group_id, asked, wait_seconds=self._patience)

    def ask_for_group(self, group_id: str, *, limit_seconds: float) -> GroupRequest:
        """Request a group's description; the client gives up after ``limit_seconds``."""
        return self._open.describe_consumer_groups([group_id], request_timeout=limit_seconds)[
            group_id
        ]

    def group_answer(
        self, group_id: str, asked: GroupRequest, *, wait_seconds: float
    ) -> GroupSnapshot:
        """Return the answer; the request is under way still when ``asked`` is not done after."""
        try:
            description = asked.result(wait_seconds)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return GroupSnapshot(group_id, ConsumerGroupState.DEAD.name, "", "", ())
            raise self._mapped(error, f"describe group {group_id}") from error
        except FutureTimeoutError as error:
            raise self._no_answer(f"describe group {group_id}") from error
        return group_snapshot(description)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the end offset of each partition of ``topic``."""
        return self._offsets(topic, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def committed_end_offsets(self, topic: str) -> dict[int, int]:
        """Return, for each partition, where the first transaction that is still open begins."""
        spec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(topic, spec, isolation_level=IsolationLevel.READ_COMMITTED)

    def start_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset of the oldest kept message of each partition of ``topic``."""
        return self._offsets(topic, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _offsets(self, topic: str, spec: OffsetSpec, **options: object) -> dict[int, int]:
        partitions = self.partition_counts([topic]).get(topic)
        if partitions is None:
            message = f"topic {topic} does not exist on {self._servers}"
            raise NotReady(message)
        request = {TopicPartition(topic, number): spec for number in range(partitions)}
        found: dict[int, int] = {}

        def are_read() -> tuple[bool, str]:
            futures = self._open.list_offsets(
                request, request_timeout=self._timeout_seconds, **options
            )
            for place, future in futures.items():
                try:
                    answer = self._answer(future, f"read offsets of {topic}")
                except NotReady as error:
                    if not has_no_leader_yet(error):
                        raise
                    return False, str(error)
                found[place.partition] = int(answer.offset)
            return True, ""

        self._poll_until(are_read, f"read offsets of {topic}")
        return found
