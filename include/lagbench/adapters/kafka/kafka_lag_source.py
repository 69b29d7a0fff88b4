"""Read the offsets of many consumer groups of one Kafka cluster in one batch.

One ListOffsets request to each broker that leads a partition, for all topics together, and one
OffsetFetch for each group: whatever the number of objects that look at it.

Reading joins no group and creates no topic. An unreachable cluster raises no error here: every
group's sample has the reason, and the next sample tries again.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it has no __all__
    AdminClient,
    OffsetSpec,
)

from lagbench.adapters.kafka.client_settings import SILENT, spoken
from lagbench.adapters.kafka.kafka_lag_process import (
    DEFAULT_TIMEOUT_SECONDS,
    MARGIN_SECONDS,
    longest_sample_seconds,
)
from lagbench.core.lag_scaler.lag_source import (
    NO_OFFSET,
    GroupSample,
    GroupTopic,
    Offsets,
    PartitionIds,
    failed_sample,
)
from lagbench.errors import NotReady

PARTITIONS_KEPT_SECONDS = 10.0
"""Longest age of a topic's known partitions, as with our consumers (``RECOVERY``): what waits in
new ones counts as soon as they may be read. One request renews all topics."""
FORGOTTEN_AFTER_SECONDS = 600.0
"""Then a group that no sample asked for is forgotten; one sampled less often begins as a new one.
"""
STARTS_KEPT_SECONDS = 5.0
"""Shortest time between two requests for the log starts of a group whose commits stand still.
Brokers look for expired records every five minutes by default."""
ENTRIES_UNDER_WAY = 1_000
"""Committed offsets that are asked for at the same time, whatever the number of groups."""
_FIRST_ANSWER_ENTRIES = 100  # expected of a group that has never answered
_SPEC: Any = OffsetSpec  # its methods carry no types
GROUPS_PER_CONNECTION = 10
_STATISTICS_MS = 2_000
Place = tuple[str, int]
Problem = str


class KafkaConnections:
    """Admin clients of one cluster, opened when they are needed.

    librdkafka keeps the coordinators of 10 groups only; with an 11th it looks one up before every
    OffsetFetch. So each connection serves 10 groups: measured with 50 groups, 51 requests for a
    sample instead of 92.

    A client that requested committed offsets while its broker was unreachable never receives any
    again, even when the broker is back (librdkafka 2.16 with Kafka 4.3: each request times out,
    those of a new client are answered). So a client without an answer is replaced.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take librdkafka settings (addresses, TLS, SASL); connecting is lazy.

        :raises NotReady: librdkafka rejects the settings, for example a missing key file.
        """
        self._settings = dict(settings)
        self._groups: dict[str, int] = {}
        self._free: list[int] = []
        self._sent: dict[int, int] = {}
        self._sent_by_replaced = 0
        self._doubtful: set[int] = set()
        self._lock = threading.Lock()
        self._clients = [self._connect(0)]

    @property
    def first(self) -> AdminClient:
        """The connection for what belongs to no group."""
        return self._clients[0]

    @property
    def requests(self) -> int:
        """Number of requests to brokers, as librdkafka counts them; 2 s late."""
        with self._lock:
            return self._sent_by_replaced + sum(self._sent.values())

    def of_group(self, group: str) -> AdminClient:
        """Return the connection that is always used for this group."""
        if group not in self._groups:
            self._groups[group] = self._free.pop() if self._free else len(self._groups)
        number = self._groups[group] // GROUPS_PER_CONNECTION
        while len(self._clients) <= number:
            self._clients.append(self._connect(len(self._clients)))
        return self._clients[number]

    def forget(self, group: str) -> None:
        """Give the place of a group to the next new one."""
        number = self._groups.pop(group, None)
        if number is not None:
            self._free.append(number)

    def doubt(self, client: AdminClient) -> None:
        """Note that a client got no answer."""
        self._doubtful.add(next(n for n, known in enumerate(self._clients) if known is client))

    def serve(self) -> None:
        """Take in what librdkafka has counted meanwhile; replace the doubtful clients.

        To be called while no request is under way.
        """
        for client in self._clients:
            client.poll(0)
        for number in self._doubtful:
            self._clients[number] = self._connect(number)
            with self._lock:
                self._sent_by_replaced += self._sent.pop(number, 0)
        self._doubtful.clear()

    def close(self) -> None:
        """Close all connections (librdkafka does so when the object is deleted)."""
        self._clients.clear()

    def _connect(self, number: int) -> AdminClient:
        def take_statistics(text: str) -> None:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                sent = sum(int(broker["tx"]) for broker in json.loads(text)["brokers"].values())
                with self._lock:
                    self._sent[number] = sent

        settings = {
            "client.id": "lagbench-lag-scaler",
            # Not RECOVERY: each connection would have one more request every 10 s, and they count.
            "reconnect.backoff.max.ms": 1_000,
            "socket.connection.setup.timeout.ms": 5_000,
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": take_statistics,
            **self._settings,
        }
        try:
            return AdminClient(settings, logger=SILENT)
        except KafkaException as error:
            raise NotReady(f"cannot open a connection to Kafka: {spoken(error)}") from error


@dataclass(frozen=True, slots=True)
class _Topic:
    """The partitions of a topic, ascending, and when they were asked for."""

    partitions: PartitionIds
    asked_at: float


@dataclass(slots=True)
class _Seen:
    """The knowledge of a group on a topic: its last good sample, and when it was last wanted."""

    wanted_at: float
    sample: GroupSample | None = None
    starts_asked_at: float = -STARTS_KEPT_SECONDS

    def unsure(self, sample: GroupSample, now: float) -> npt.NDArray[np.intp]:
        """Return the places of the partitions whose log start is to be requested.

        Where a commit moves, the group reads records that are in the log. Where it stands still
        although records wait, retention may have passed it: expired records are not lag.
        """
        before, self.sample = self.sample, sample
        no_commit = sample.committed == NO_OFFSET
        waits = ~no_commit & (sample.committed < sample.end)
        if before is not None and np.array_equal(before.partitions, sample.partitions):
            waits &= before.committed == sample.committed
        if now - self.starts_asked_at < STARTS_KEPT_SECONDS:
            return np.flatnonzero(no_commit)
        if waits.any():
            self.starts_asked_at = now
        return np.flatnonzero(no_commit | waits)


class KafkaLagSource:
    """Samples the groups of one cluster; used by one thread at a time."""

    def __init__(
        self, settings: Mapping[str, Any], *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> None:
        """Take librdkafka settings (addresses, TLS, SASL); nothing is connected yet.

        :raises NotReady: librdkafka rejects the settings, for example a missing key file.
        """
        self._connections = KafkaConnections(settings)
        self._timeout_seconds = timeout_seconds
        self._topics: dict[str, _Topic] = {}
        self._answer_sizes: dict[str, int] = {}
        self._seen: dict[GroupTopic, _Seen] = {}
        self._deadline = 0.0

    @property
    def broker_requests(self) -> int:
        """Number of requests to brokers, as librdkafka counts them; 2 s late."""
        return self._connections.requests

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def sample(self, wanted: Sequence[GroupTopic], at_ns: int) -> dict[GroupTopic, GroupSample]:
        """Return the offsets of every wanted group at this instant, or what went wrong with it."""
        self._deadline = time.monotonic() + longest_sample_seconds(self._timeout_seconds)
        problems = self._learn_partitions(sorted({item.topic for item in wanted}))
        known = [item for item in wanted if item.topic not in problems]
        partitions = {item.topic: self._topics[item.topic].partitions for item in known}
        ends = self._ends({item.topic for item in known})
        committed = self._all_committed(sorted({item.group for item in known}))
        found: dict[GroupTopic, GroupSample] = {}
        for item in wanted:
            end = problems.get(item.topic) or ends[item.topic]
            stored = committed.get(item.group, "")
            if isinstance(end, Problem) or isinstance(stored, Problem):
                found[item] = failed_sample(at_ns, end if isinstance(end, Problem) else str(stored))
                continue
            numbers = partitions[item.topic]
            mine = _column(numbers, stored.get(item.topic, []))
            found[item] = GroupSample(at_ns, numbers, end, mine)
        self._add_earliest(found)
        self._forget_unwanted()
        self._connections.serve()
        return found

    def _forget_unwanted(self) -> None:
        """Forget what no sample asked for lately: groups come and go in a long life."""
        now = time.monotonic()
        old = {
            i for i, seen in self._seen.items() if now - seen.wanted_at > FORGOTTEN_AFTER_SECONDS
        }
        if not old:
            return
        self._seen = {item: seen for item, seen in self._seen.items() if item not in old}
        groups, topics = ({getattr(i, of) for i in self._seen} for of in ("group", "topic"))
        for group in {item.group for item in old} - groups:
            self._answer_sizes.pop(group, None)
            self._connections.forget(group)
        for topic in {item.topic for item in old} - topics:
            self._topics.pop(topic, None)

    def _learn_partitions(self, names: Sequence[str]) -> dict[str, Problem]:
        """Renew what is too old, all topics in one request; return what went wrong by topic."""
        now = time.monotonic()
        kept = {
            name
            for name in names
            if name in self._topics and now - self._topics[name].asked_at <= PARTITIONS_KEPT_SECONDS
        }
        if len(kept) == len(names):
            return {}
        client = self._connections.first
        try:
            asked = client.describe_topics(
                TopicCollection(list(names)), request_timeout=self._timeout_seconds
            )
        except (KafkaException, ValueError, TypeError) as error:
            return {name: f"could not describe topics: {spoken(error)}" for name in names}
        problems: dict[str, Problem] = {}
        for name in names:
            answer = self._answer(asked[name], client)
            if isinstance(answer, Problem):
                if name not in kept:
                    problems[name] = f"could not describe topic {name}: {answer}"
                continue
            numbers = sorted(partition.id for partition in answer.partitions)
            if not numbers:
                problems[name] = f"topic {name} has no partition yet"
                continue
            self._topics[name] = _Topic(np.array(numbers, dtype=np.int32), now)
        return problems

    def _ends(self, names: Iterable[str]) -> dict[str, Offsets | Problem]:
        """Return the end offsets of each topic's partitions, all topics in one request."""
        numbers = {name: self._topics[name].partitions.tolist() for name in sorted(names)}
        places = [(name, number) for name, listed in numbers.items() for number in listed]
        answers = self._list_offsets(places, _SPEC.latest())
        found: dict[str, Offsets | Problem] = {}
        for name, listed in numbers.items():
            offsets = [answers[name, number] for number in listed]
            problem = next((offset for offset in offsets if isinstance(offset, Problem)), None)
            if problem is not None:
                found[name] = f"could not read the end offsets of topic {name}: {problem}"
                self._topics.pop(name)  # perhaps the topic was made anew: look again next time
            else:
                found[name] = np.array(offsets, dtype=np.int64)
        return found

    def _add_earliest(self, found: dict[GroupTopic, GroupSample]) -> None:
        """Request the log starts where the commits leave them in doubt; a missing one is fine.

        One request more per broker, and only while there is such a partition.
        """
        now = time.monotonic()
        unsure: dict[GroupTopic, npt.NDArray[np.intp]] = {}
        for item, sample in found.items():
            seen = self._seen.setdefault(item, _Seen(now))
            seen.wanted_at = now
            if not sample.error and (positions := seen.unsure(sample, now)).size:
                unsure[item] = positions
        places = {
            (item.topic, int(number))
            for item, positions in unsure.items()
            for number in found[item].partitions[positions]
        }
        answers = self._list_offsets(sorted(places), _SPEC.earliest())
        for item, positions in unsure.items():
            sample = found[item]
            earliest = np.full(len(sample.partitions), NO_OFFSET, dtype=np.int64)
            for position in positions:
                offset = answers[item.topic, int(sample.partitions[position])]
                earliest[position] = NO_OFFSET if isinstance(offset, Problem) else offset
            found[item] = replace(sample, earliest=earliest)

    def _list_offsets(self, places: Sequence[Place], spec: Any) -> dict[Place, int | Problem]:
        """Return the offset of each place, or the reason why there is none."""
        if not places:
            return {}
        client = self._connections.first
        try:
            asked = client.list_offsets(
                {TopicPartition(*place): spec for place in places},
                request_timeout=self._timeout_seconds,
            )
        except (KafkaException, ValueError, TypeError) as error:
            return dict.fromkeys(places, spoken(error))
        found: dict[Place, int | Problem] = {}
        for item, future in asked.items():
            answer = self._answer(future, client)
            found[item.topic, item.partition] = (
                answer if isinstance(answer, Problem) else int(answer.offset)
            )
        return found

    def _all_committed(
        self, groups: Sequence[str]
    ) -> dict[str, dict[str, list[TopicPartition]] | Problem]:
        """Return the committed offsets of each group by topic, some groups at a time.

        The client makes an answer's objects in one go, in which no other thread runs: some 3 ms
        for 2,400 partitions. Many large answers at once would hold up everything else.
        """
        found: dict[str, dict[str, list[TopicPartition]] | Problem] = {}
        waiting: deque[tuple[str, int, Future[Any] | Problem]] = deque()
        room = ENTRIES_UNDER_WAY
        for group in groups:
            size = self._answer_sizes.get(group, _FIRST_ANSWER_ENTRIES)
            while waiting and size > room:
                first, its_size, answer = waiting.popleft()
                found[first] = self._committed(first, answer)
                room += its_size
            waiting.append((group, size, self._ask_committed(group)))
            room -= size
        found.update((group, self._committed(group, answer)) for group, _, answer in waiting)
        return found

    def _ask_committed(self, group: str) -> Future[Any] | Problem:
        if time.monotonic() > self._deadline:
            return "not requested: the broker is too slow"
        # Without a list of partitions: the answer has those with an offset, the others have none.
        request = [ConsumerGroupTopicPartitions(group)]
        try:
            asked: Future[Any] = self._connections.of_group(group).list_consumer_group_offsets(
                request, request_timeout=self._timeout_seconds
            )[group]
        except (KafkaException, ValueError, TypeError) as error:
            return spoken(error)
        return asked

    def _committed(
        self, group: str, asked: Future[Any] | Problem
    ) -> dict[str, list[TopicPartition]] | Problem:
        client = self._connections.of_group(group)
        answer = asked if isinstance(asked, Problem) else self._answer(asked, client)
        if isinstance(answer, Problem):
            return f"could not read the offsets of group {group}: {answer}"
        self._answer_sizes[group] = len(answer.topic_partitions)
        by_topic: dict[str, list[TopicPartition]] = {}
        for item in answer.topic_partitions:
            if item.topic not in self._topics:
                continue  # nobody asks for it
            if item.error is not None:
                return f"could not read the offsets of group {group}: {item.error.str()}"
            by_topic.setdefault(item.topic, []).append(item)
        return by_topic

    def _answer(self, future: Future[Any], client: AdminClient) -> Any | Problem:
        """Return what a request brought, or why it brought nothing; a text is never an answer."""
        patience = min(self._timeout_seconds + MARGIN_SECONDS, self._deadline - time.monotonic())
        try:
            return future.result(timeout=max(0.0, patience))
        except FutureTimeoutError:
            self._connections.doubt(client)
            return "no answer in time"
        except KafkaException as error:
            if error.args[0].code() < 0:  # librdkafka's own errors: no broker has answered
                self._connections.doubt(client)
            return spoken(error)


def _column(partitions: PartitionIds, listed: Sequence[TopicPartition]) -> Offsets:
    """Return the offsets in the order of the partitions; those of others are left out."""
    offsets = {item.partition: max(item.offset, NO_OFFSET) for item in listed}
    found = [offsets.get(number, NO_OFFSET) for number in partitions.tolist()]
    return np.array(found, dtype=np.int64)
