"""Read a run from Kafka: offsets of the group, and the group itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from lagbench.adapters.kafka.kafka_admin import GroupMember as Member
from lagbench.adapters.kafka.kafka_admin import GroupRequest, GroupSnapshot, KafkaAdmin
from lagbench.adapters.kafka.kafka_connections import RECOVERY
from lagbench.adapters.kafka.kafka_lag import open_admin, read_offsets, read_partitions
from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    LagSample,
)

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
        # In each sample: until a new partition is read its lag is not known.
        partitions = read_partitions(self._admin, self._topic, timeout_seconds=_TIMEOUT_SECONDS)
        places = [(self._topic, partition) for partition in partitions]
        found = read_offsets(self._admin, self._group, places, timeout_seconds=_TIMEOUT_SECONDS)
        rows = [
            (partition, offsets.end, offsets.committed)
            for (_, partition), offsets in found.items()
            if offsets.end is not None
        ]
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
        return KafkaAdmin(
            {**self._settings, **RECOVERY},
            timeout_seconds=_TIMEOUT_SECONDS,
        )
