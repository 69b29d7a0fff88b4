"""Read the offsets of many consumer groups of one Kafka cluster in one batch.

One ListOffsets request to each broker that leads a partition, for all topics together, and one
OffsetFetch for each group: whatever the number of objects that look at it.

Reading joins no group and creates no topic. An unreachable cluster raises no error here: every
group's sample has the reason. A client that requested committed offsets while its broker was
unreachable never receives any again, even when the broker is back (librdkafka 2.16 with Kafka
4.3), so a source with ``is_lost`` is to be replaced.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it has no __all__

from lag_scaler.kafka_process import MARGIN_SECONDS, longest_sample_seconds
from lag_scaler.offsets import (
    NO_OFFSET,
    GroupSample,
    GroupTopic,
    Offsets,
    PartitionIds,
    failed_sample,
)
from pod_program.errors import NotReady
from pod_program.kafka_settings import SILENT, spoken

GROUPS_PER_CONNECTION = 10
"""librdkafka keeps the coordinators of 10 groups; with an 11th it looks one up before every
OffsetFetch. Measured with 50 groups: 1.05 requests for each group's sample instead of 2.02.
"""
PARTITIONS_KEPT_SECONDS = 10.0
"""Longest age of a topic's known partitions, as with our consumers (``RECOVERY``): what waits in
new ones counts as soon as they may be read. One request renews all topics."""
FORGOTTEN_AFTER_SECONDS = 600.0
"""Then a group that no sample asked for is forgotten; one sampled less often begins as a new one.
"""
STARTS_KEPT_SECONDS = 5.0
"""Shortest time between two requests for the log starts of a group whose commits stand still.
Brokers look for expired records every five minutes by default."""
_SETTINGS: Mapping[str, Any] = {
    "client.id": "lagbench-lag-scaler",
    # Not RECOVERY: each connection would have one more request every 10 s, and they count.
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 5_000,
    "statistics.interval.ms": 2_000,
}
# librdkafka 2.16 goes on with the metadata of before a broker's restart, for 85 s as measured.
_OTHER_LEADER = {KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH}
_SPEC: Any = OffsetSpec  # its methods carry no types
_REFUSED = (KafkaException, ValueError, TypeError)

Place = tuple[str, int]


class _Failed(Exception):
    """A request has no result; the text says why."""


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

    def __init__(self, settings: Mapping[str, Any], *, timeout_seconds: float) -> None:
        """Take librdkafka settings (addresses, TLS, SASL); nothing is connected yet.

        :raises NotReady: librdkafka rejects the settings, for example a missing key file.
        """
        self.is_lost = False
        self._settings, self._timeout_seconds = settings, timeout_seconds
        self._clients: list[AdminClient] = []
        self._sent: dict[int, int] = {}
        self._connection_of: dict[str, int] = {}
        self._topics: dict[str, tuple[PartitionIds, float]] = {}
        self._seen: dict[GroupTopic, _Seen] = {}
        self._deadline = 0.0
        self._connect()

    @property
    def broker_requests(self) -> int:
        """Number of requests to brokers, as librdkafka counts them; 2 s late."""
        return sum(self._sent.values())

    def sample(self, wanted: Sequence[GroupTopic], at_ns: int) -> dict[GroupTopic, GroupSample]:
        """Return the offsets of every wanted group at this instant, or what went wrong with it."""
        self._deadline = time.monotonic() + longest_sample_seconds(self._timeout_seconds)
        problems = self._learn_partitions(sorted({item.topic for item in wanted}))
        ends = self._ends(sorted({item.topic for item in wanted} - problems.keys()), problems)
        commits = self._commits(sorted({item.group for item in wanted if item.topic in ends}))
        found: dict[GroupTopic, GroupSample] = {}
        servers = self._settings.get("bootstrap.servers", "")
        for item in wanted:
            stored = commits.get(item.group, "")
            if item.topic in problems or isinstance(stored, str):
                why = problems.get(item.topic) or stored
                found[item] = failed_sample(at_ns, f"Kafka at {servers}: {why}")
                continue
            numbers = self._topics[item.topic][0]
            mine = [stored.get((item.topic, number), NO_OFFSET) for number in numbers.tolist()]
            found[item] = GroupSample(
                at_ns, numbers, ends[item.topic], np.array(mine, dtype=np.int64)
            )
        self._add_earliest(found)
        self._forget_unwanted()
        for client in self._clients:
            client.poll(0)  # takes in the statistics
        return found

    def _connect(self) -> int:
        """Open one more connection and return its number; the first is for all topics, too."""
        number = len(self._clients)

        def count(text: str) -> None:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                brokers = json.loads(text)["brokers"].values()
                self._sent[number] = sum(int(broker["tx"]) for broker in brokers)

        settings: dict[str, Any] = {**_SETTINGS, "stats_cb": count, **self._settings}
        try:
            client = AdminClient(settings, logger=SILENT)
        except KafkaException as error:
            raise NotReady(f"cannot open a connection to Kafka: {spoken(error)}") from error
        self._clients.append(client)
        return number

    def _client_of(self, group: str) -> AdminClient:
        """Return the connection that is always used for this group."""
        if group not in self._connection_of:
            groups = Counter(self._connection_of.values())
            free = (n for n in range(len(self._clients)) if groups[n] < GROUPS_PER_CONNECTION)
            number = next(free, None)
            self._connection_of[group] = self._connect() if number is None else number
        return self._clients[self._connection_of[group]]

    def _forget_unwanted(self) -> None:
        """Forget what no sample asked for lately: groups come and go in a long life."""
        oldest = time.monotonic() - FORGOTTEN_AFTER_SECONDS
        self._seen = {item: seen for item, seen in self._seen.items() if seen.wanted_at >= oldest}
        groups, topics = ({getattr(i, of) for i in self._seen} for of in ("group", "topic"))
        self._connection_of = {g: n for g, n in self._connection_of.items() if g in groups}
        self._topics = {name: topic for name, topic in self._topics.items() if name in topics}

    def _learn_partitions(self, names: Sequence[str]) -> dict[str, str]:
        """Renew what is too old, all topics in one request; return what went wrong by topic."""
        now = time.monotonic()
        oldest = now - PARTITIONS_KEPT_SECONDS
        kept = {name for name in names if name in self._topics and self._topics[name][1] >= oldest}
        if len(kept) == len(names):
            return {}
        try:
            asked = self._clients[0].describe_topics(
                TopicCollection(list(names)), request_timeout=self._timeout_seconds
            )
        except _REFUSED as error:
            return {name: f"could not describe topics: {spoken(error)}" for name in names}
        problems: dict[str, str] = {}
        for name in names:
            try:
                numbers = sorted(part.id for part in self._answer(asked[name]).partitions)
            except _Failed as problem:
                if name not in kept:
                    problems[name] = f"could not describe topic {name}: {problem}"
                continue
            if numbers:
                self._topics[name] = (np.array(numbers, dtype=np.int32), now)
            else:
                problems[name] = f"topic {name} has no partition yet"
        return problems

    def _ends(self, names: Iterable[str], problems: dict[str, str]) -> dict[str, Offsets]:
        """Return the end offsets of each topic's partitions; add what went wrong by topic."""
        numbers = {name: self._topics[name][0].tolist() for name in names}
        places = [(name, number) for name, listed in numbers.items() for number in listed]
        answers = self._list_offsets(places, _SPEC.latest())
        found: dict[str, Offsets] = {}
        for name, listed in numbers.items():
            offsets = [answers[name, number] for number in listed]
            problem = next((offset for offset in offsets if isinstance(offset, str)), None)
            if problem is None:
                found[name] = np.array(offsets, dtype=np.int64)
            else:
                problems[name] = f"could not read the end offsets of topic {name}: {problem}"
                self._topics.pop(name)  # perhaps the topic was made anew: look again next time
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
                earliest[position] = NO_OFFSET if isinstance(offset, str) else offset
            found[item] = replace(sample, earliest=earliest)

    def _list_offsets(self, places: Sequence[Place], spec: Any) -> dict[Place, int | str]:
        """Return the offset of each place, or the reason why there is none."""
        if not places:
            return {}
        request = {TopicPartition(*place): spec for place in places}
        try:
            asked = self._clients[0].list_offsets(request, request_timeout=self._timeout_seconds)
        except _REFUSED as error:
            return dict.fromkeys(places, spoken(error))
        found: dict[Place, int | str] = {}
        for item, future in asked.items():
            try:
                found[item.topic, item.partition] = int(self._answer(future).offset)
            except _Failed as problem:
                found[item.topic, item.partition] = str(problem)
        return found

    def _commits(self, groups: Sequence[str]) -> dict[str, dict[Place, int] | str]:
        """Return each group's committed offsets, or why there are none; some groups at a time."""
        found: dict[str, dict[Place, int] | str] = {}
        for first in range(0, len(groups), GROUPS_PER_CONNECTION):
            asked = {
                group: self._ask_commits(group)
                for group in groups[first : first + GROUPS_PER_CONNECTION]
            }
            for group, answer in asked.items():
                try:
                    found[group] = self._read_commits(answer)
                except _Failed as problem:
                    found[group] = f"could not read the offsets of group {group}: {problem}"
        return found

    def _ask_commits(self, group: str) -> Future[Any] | str:
        if time.monotonic() > self._deadline:
            return "not requested: the broker is too slow"
        # Without a list of partitions: the answer has those with an offset, the others have none.
        request = [ConsumerGroupTopicPartitions(group)]
        try:
            asked: Future[Any] = self._client_of(group).list_consumer_group_offsets(
                request, request_timeout=self._timeout_seconds
            )[group]
        except _REFUSED as error:
            return spoken(error)
        return asked

    def _read_commits(self, asked: Future[Any] | str) -> dict[Place, int]:
        if isinstance(asked, str):
            raise _Failed(asked)
        listed = [p for p in self._answer(asked).topic_partitions if p.topic in self._topics]
        for item in listed:
            if item.error is not None:
                raise _Failed(item.error.str())
        return {(item.topic, item.partition): max(item.offset, NO_OFFSET) for item in listed}

    def _answer(self, future: Future[Any]) -> Any:
        """Return what a request brought."""
        patience = min(self._timeout_seconds + MARGIN_SECONDS, self._deadline - time.monotonic())
        try:
            return future.result(timeout=max(0.0, patience))
        except FutureTimeoutError:
            self.is_lost = True
            raise _Failed("no answer in time") from None
        except KafkaException as error:
            # librdkafka's own errors have numbers below 0: no broker has answered.
            code = error.args[0].code()
            self.is_lost = self.is_lost or code < 0 or code in _OTHER_LEADER
            raise _Failed(spoken(error)) from None
