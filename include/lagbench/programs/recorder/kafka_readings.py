"""Read a run from Kafka: offsets of the group, and the group itself."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from lagbench.adapters.kafka.kafka_admin import GroupMember as Member
from lagbench.adapters.kafka.kafka_admin import GroupRequest, GroupSnapshot, KafkaAdmin
from lagbench.adapters.kafka.kafka_lag import open_admin, read_group_lag
from lagbench.core.measures.evidence.lag_readings import lag_series
from lagbench.core.telemetry.records_of_programs import (
    ConsumerProgress,
    LoadStep,
    Phase,
    PodStarted,
    PodStopped,
    Record,
    StreamFinished,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    HpaSample,
    LagSample,
    ReadGap,
    ScaledObjectSample,
    UsageSample,
    What,
)
from pod_program.kafka_settings import RECOVERY

_TIMEOUT_SECONDS = 1.0
_REQUEST_LIMIT_SECONDS = 3600.0
"""Longer than an outage of a broker: with librdkafka 2.16.1 a request to a group's coordinator that
times out while the broker stops ends the process (see ``adapters.kafka.kafka_lag``).
"""

_ANSWER_LIMIT_SECONDS = 3.0
"""Then a request is given up with its client: after an outage it may never be answered (seen for
92 s), while that of a new client is. The old client is kept while its request is open: closing it
would end the request. Each request that is given up without an answer between doubles the limit."""

_LONGEST_ANSWER_LIMIT_SECONDS = 60.0
_MEMBERS_EVERY_SECONDS = 10.0
_AT_REST = frozenset({"stable", "empty", "dead"})
"""States of a group in which no rebalance is in progress."""


class LagReading:
    """End and committed offset of every partition."""

    def __init__(self, settings: Mapping[str, Any], *, group: str, topic: str, source: str) -> None:
        """Connect with librdkafka's ``settings``; nothing is asked yet."""
        self._admin = open_admin(str(settings["bootstrap.servers"]), settings)
        self._group = group
        self._topic = topic
        self._source = source

    def __call__(self, at: int) -> Iterable[Record]:
        """Return one sample of all partitions; partial answers are errors."""
        # With the partitions of now: until a new one is read its lag is not known.
        found = read_group_lag(
            self._admin, self._group, self._topic, timeout_seconds=_TIMEOUT_SECONDS
        )
        rows = [(n, one.end, one.committed) for n, one in found.items() if one.end is not None]
        return [LagSample(at=at, source=self._source, partitions=rows)]


class GroupReading:
    """State and members of the consumer group.

    The members are sent when they changed, every ten seconds, and after a failed reading.
    """

    def __init__(self, settings: Mapping[str, Any], *, group: str, topic: str, source: str) -> None:
        """Connect with librdkafka's ``settings``; nothing is asked yet."""
        self._settings = dict(settings)
        self._group = group
        self._topic = topic
        self._source = source
        self._admin = self._connect()
        self._asked: GroupRequest | None = None
        self._asked_at = 0.0
        self._given_up: list[tuple[KafkaAdmin, GroupRequest]] = []
        self._limit_seconds = _ANSWER_LIMIT_SECONDS
        self._is_in_doubt = False
        self._reported: list[GroupMember] | None = None  # None: unknown since the last reading
        self._reported_at = 0.0
        self._is_rebalancing = False

    def is_rebalancing(self) -> bool:
        """Return whether the last reading showed a rebalance; False if it failed."""
        return self._is_rebalancing

    def __call__(self, at: int) -> Iterable[Record]:
        """Return one sample; a group without members is a group, not a gap."""
        before, self._reported = self._reported, None
        self._is_rebalancing = False
        group = self._describe()
        self._is_rebalancing = group.state.lower() not in _AT_REST
        self._reported = members = [self._member(found) for found in group.members]
        idle = sum(not member.partitions for member in group.members)
        records: list[Record] = [
            GroupSample(
                at=at,
                source=self._source,
                state=group.state.lower(),
                members=len(group.members),
                members_without_partitions=idle,
            )
        ]
        now = time.monotonic()
        if members != before or now - self._reported_at >= _MEMBERS_EVERY_SECONDS:
            self._reported_at = now
            records.append(GroupMembers(at=at, source=self._source, members=members))
        return records

    def _member(self, found: Member) -> GroupMember:
        return GroupMember(
            member_id=found.member_id,
            client_id=found.client_id,
            host=found.host,
            partitions=[number for topic, number in found.partitions if topic == self._topic],
        )

    def _describe(self) -> GroupSnapshot:
        """Ask, or wait on for what was asked for: the coordinator has one request at a time."""
        self._given_up = [kept for kept in self._given_up if not kept[1].done()]
        if self._asked is None:
            if self._is_in_doubt:
                self._admin.check_reachable()  # raises; no request is left open that way
            self._asked = self._admin.ask_for_group(
                self._group, limit_seconds=_REQUEST_LIMIT_SECONDS
            )
            self._asked_at = time.monotonic()
        asked = self._asked
        try:
            found = self._admin.group_answer(self._group, asked, wait_seconds=_TIMEOUT_SECONDS)
        finally:
            self._is_in_doubt = not asked.done()
            if asked.done():
                self._asked = None
            elif time.monotonic() - self._asked_at > self._limit_seconds:
                self._given_up.append((self._admin, asked))
                self._admin, self._asked = self._connect(), None
                longer_seconds = 2 * self._limit_seconds
                self._limit_seconds = min(longer_seconds, _LONGEST_ANSWER_LIMIT_SECONDS)
        self._limit_seconds = _ANSWER_LIMIT_SECONDS
        return found

    def _connect(self) -> KafkaAdmin:
        return KafkaAdmin({**self._settings, **RECOVERY}, timeout_seconds=_TIMEOUT_SECONDS)


Kind = TypeVar("Kind", bound=Record)

# Beyond two intervals a reading is missing: then the last good one says nothing of now.
_INTERVALS_SHOWN = 2.5
_SHORTEST_SHOWN_SECONDS = 2.5

# Pods and producer report once a second, by Kafka and by clocks of their own.
_REPORT_SHOWN_SECONDS = 10.0


class NewestReadings:
    """Takes records from any thread; what was not renewed in time is missing, never zero."""

    def __init__(self, *, interval_seconds: float) -> None:
        """Expect the recorder's own samples every ``interval_seconds``."""
        shown_seconds = max(_INTERVALS_SHOWN * interval_seconds, _SHORTEST_SHOWN_SECONDS)
        self._sample_shown_ns = round(shown_seconds * 1e9)
        self._report_shown_ns = round(_REPORT_SHOWN_SECONDS * 1e9)
        self._newest: dict[tuple[type[Record], str], Record] = {}
        self._phases: dict[str, Phase] = {}
        self._gaps: Counter[str] = Counter(dict.fromkeys(get_args(What), 0))
        self._lock = threading.Lock()

    def take(self, record: Record) -> None:
        """Keep ``record`` until a newer one comes, or its subject has ended."""
        with self._lock:
            if isinstance(record, ReadGap):
                self._gaps[record.what] += 1
            elif isinstance(record, Phase) and record.state == "started":
                self._phases[record.name] = record
            elif isinstance(record, Phase):
                self._phases.pop(record.name, None)
            elif isinstance(record, StreamFinished):
                self._newest.pop((LoadStep, ""), None)  # the planned rate has ended
            elif isinstance(record, PodStopped):
                for kind in (ConsumerProgress, PodStarted):
                    self._newest.pop((kind, record.source), None)
            else:
                place = (type(record), _place(record))
                before = self._newest.get(place)
                if before is None or record.at >= before.at:  # history is read meanwhile
                    self._newest[place] = record

    def samples(self, kind: type[Kind], *, now: int) -> list[Kind]:
        """Return the recorder's own samples of a kind that are still true at ``now`` (unix ns)."""
        return self._newer_than(kind, now - self._sample_shown_ns)

    def reports(self, kind: type[Kind], *, now: int) -> list[Kind]:
        """Return what others reported of a kind and renew every second."""
        return self._newer_than(kind, now - self._report_shown_ns)

    def facts(self, kind: type[Kind]) -> list[Kind]:
        """Return the readings that hold until the next report."""
        return self._newer_than(kind, 0)

    def phases(self) -> list[Phase]:
        """Return the phases in progress."""
        with self._lock:
            return list(self._phases.values())

    def gaps(self) -> Mapping[str, int]:
        """Return how many readings of each sort failed."""
        with self._lock:
            return dict(self._gaps)

    def _newer_than(self, kind: type[Kind], limit_at: int) -> list[Kind]:
        with self._lock:
            records = list(self._newest.values())
        return [found for found in records if isinstance(found, kind) and found.at >= limit_at]


def _place(record: Record) -> str:
    """Return which of several records of a kind stand side by side."""
    match record:
        case HpaSample() | ScaledObjectSample():
            return record.name
        case UsageSample():
            return record.component
        case ConsumerProgress() | PodStarted():
            return record.source
    return ""


@dataclass(frozen=True, slots=True)
class ExposedLag:
    """Records of lag in total (None while a partition's is unknown) and by partition."""

    total: float | None
    by_partition: tuple[tuple[int, float | None], ...]


def exposed_lag(sample: LagSample) -> ExposedLag | None:
    """Return the lag of a sample; None when it has no partition."""
    if not sample.partitions:
        return None
    partitions, ends, committed = zip(*sample.partitions, strict=True)
    series = lag_series([sample.at] * len(partitions), partitions, ends, committed)
    each = zip(series.partitions.tolist(), series.by_partition[0], strict=True)
    return ExposedLag(
        _known(series.total[0]), tuple((partition, _known(lag)) for partition, lag in each)
    )


def _known(lag: float) -> float | None:
    return None if math.isnan(lag) else float(lag)
