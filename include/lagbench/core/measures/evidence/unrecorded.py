"""Find rebalances, members of the group and pods that the telemetry should have, and has not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lagbench.core.measures.evidence.gaps import GAP_SECONDS, telemetry_gaps
from lagbench.core.telemetry.consumer import GroupJoined, PartitionsAssigned, PartitionsRevoked
from lagbench.core.telemetry.recorder import PodSeen
from lagbench.core.telemetry.records import TelemetryRecord

NAMED_PODS = 3


def lost_rebalances(records: Sequence[TelemetryRecord]) -> str:
    """Return the pods with an unrecorded rebalance; empty: none.

    Each pod counts its rebalances from 1, and reports the partitions it owns after each. An eager
    rebalance revokes everything and then assigns: two records with one number. A restarted
    container counts from 1 again.
    """
    moves: dict[str, list[PartitionsAssigned | PartitionsRevoked]] = {}
    for record in records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            moves.setdefault(record.source, []).append(record)
    broken = []
    for pod, own in sorted(moves.items()):
        count, owned, is_open = 0, set[int](), False
        for move in sorted(own, key=lambda record: record.at):
            is_eager = isinstance(move, PartitionsAssigned) and not move.is_incremental
            ends_one = is_open and is_eager and move.rebalance == count
            if move.rebalance == 1 and not ends_one:
                count, owned = 0, set()
            count += not ends_one
            is_open = isinstance(move, PartitionsRevoked)
            is_unrevoked = is_eager and bool(owned)
            if isinstance(move, PartitionsRevoked):
                owned = owned - set(move.partitions)
            else:
                owned = owned | set(move.partitions) if move.is_incremental else set(move.owned)
            if is_unrevoked or move.rebalance != count or owned != set(move.owned):
                broken.append(pod)
                break
    if not broken:
        return ""
    return f"rebalances of {_named(broken)} are not recorded"


def _named(pods: Sequence[str]) -> str:
    more = len(pods) - NAMED_PODS
    return ", ".join(pods[:NAMED_PODS]) + (f" and {more} more" if more > 0 else "")


def unrecorded_members(
    records: Sequence[TelemetryRecord], accounting: Mapping[str, Any] | None
) -> str:
    """Return the pods that worked without any record of an assignment; empty: none.

    Their arrival and their partitions are unknown, so the expected effect of a scale step is
    unknown too.
    """
    assigned = {record.source for record in records if isinstance(record, PartitionsAssigned)}
    by_pod = (accounting or {}).get("by_pod") or {}
    worked = {pod for pod, work in by_pod.items() if work.get("processed")}
    unknown = sorted(worked - assigned)
    if not assigned or not unknown:  # none at all: each user reports that itself
        return ""
    return f"what partitions were assigned to {_named(unknown)} is not recorded, but they worked"


def unwatched_text(
    records: Sequence[TelemetryRecord],
    timelines: Collection[str],
    from_at: int,
    until_at: int,
    *,
    members_are_pods: bool,
) -> str:
    """Return why not all pods of [from_at, until_at] have a timeline; empty when they have one.

    :param timelines: names of the pods that have one.
    :param members_are_pods: the members of the group report themselves by the names of their pods;
        others are named by their client ids.
    """
    if not any(isinstance(record, PodSeen) for record in records):
        return "the pods were not watched: no record of them"
    if members_are_pods:
        members = {r.source for r in records if isinstance(r, GroupJoined | PartitionsAssigned)}
        if unseen := sorted(members.difference(timelines)):
            return f"the pods' watch has no record of {_named(unseen)}"
    for gap in telemetry_gaps(records, from_at=from_at, until_at=until_at):
        # A list follows on a shorter one, and has each pod that lived longer.
        if gap.what == "pods" and gap.gap_seconds > GAP_SECONDS:
            return f"no reading of the pods for {gap.gap_seconds:.1f} s: {gap.reason}"
    return ""
