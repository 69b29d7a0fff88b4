"""Find the pods of a group's members by their client ids, for the consumers of a user.

A member whose client id holds the name of one of the run's pods belongs to that pod. Without such
ids only the number of members reveals a foreign one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from lagbench.core.measures.evidence.group_strangers import own_clients
from lagbench.core.scenario.own_consumer import client_pattern
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.telemetry.recorder import GroupMember, GroupMembers
from lagbench.core.telemetry.records import TelemetryRecord


def with_pods_of_members(
    records: Sequence[TelemetryRecord], consumer: ConsumerSettings
) -> list[TelemetryRecord]:
    """Return ``records``, with the pod's name as the client id of each member that has one.

    Without ``{pod}`` in the scenario's ``client_id`` the names of members mean nothing.
    """
    named = consumer.client_id is not None and "{pod}" in consumer.client_id
    pods = own_clients(records)
    return [
        msgspec.structs.replace(
            record,
            members=list(_named(record.members, pods, consumer.client_id or "")) if named else [],
        )
        if isinstance(record, GroupMembers)
        else record
        for record in records
    ]


def _named(
    members: Iterable[GroupMember], pods: frozenset[str], client_id: str
) -> Iterator[GroupMember]:
    pattern = client_pattern(client_id, r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")
    for member in members:
        found = pattern.fullmatch(member.client_id)
        if found is not None and found["pod"] in pods:
            yield msgspec.structs.replace(member, client_id=found["pod"])
        else:
            yield member
