"""Compare the group as the broker describes it with the group as its pods report it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from lagbench.core.measures.doubts.window import Window
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence
from lagbench.core.scenario import kind_of
from lagbench.core.telemetry import (
    GroupMembers,
    GroupSample,
    PartitionsAssigned,
    PartitionsRevoked,
)

AGREED_WITHIN_SECONDS = 12.0
"""Members are read at least every ten seconds, and an assignment reaches its pod a second later."""


def two_owners(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield the first reading in which the broker gives one partition to two members."""
    for record in run.records:
        if not isinstance(record, GroupMembers) or not window.holds(record.at):
            continue
        counts = Counter(p for member in record.members for p in member.partitions)
        twice = sorted(partition for partition, count in counts.items() if count > 1)
        if twice:
            owners = [m.client_id for m in record.members if twice[0] in m.partitions]
            yield (
                f"the broker had two owners of partition {twice[0]} {window.when(record.at)}:"
                f" {' and '.join(owners)}"
            )
            return


def other_owners(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield where the broker's owners differ from the pods' own reports, for long."""
    if not (run.members_are_pods and kind_of(run.scenario.consumer.kind).reports_owners):
        return
    moves: dict[str, list[tuple[int, frozenset[int]]]] = defaultdict(list)
    for record in run.records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            moves[record.source].append((record.at, frozenset(record.owned)))
    # In a rebalance a coordinator names members without what they still hold.
    stable = {r.at for r in run.records if isinstance(r, GroupSample) and r.state == "stable"}
    since: dict[str, int] = {}
    for record in run.records:
        if not isinstance(record, GroupMembers) or not window.holds(record.at):
            continue
        if record.at not in stable:
            since.clear()
            continue
        for member in record.members:
            pod, own = member.client_id, moves.get(member.client_id)
            place = bisect_right(own, record.at, key=lambda move: move[0]) if own else 0
            told = own[place - 1][1] if own and place else None
            if told is None or told == frozenset(member.partitions):
                since.pop(pod, None)
            elif record.at - since.setdefault(pod, record.at) > AGREED_WITHIN_SECONDS * NANOSECONDS:
                yield (
                    f"the broker gave {pod} partitions {sorted(member.partitions)} from"
                    f" {window.when(since[pod])[3:]} on, the pod itself reported {sorted(told)}"
                )
                return
