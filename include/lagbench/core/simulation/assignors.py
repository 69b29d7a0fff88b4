"""Assign partitions to the members of a group as its client or its broker does.

Members, at least one, are given in the order of their ids; ``owners`` are the present ones, NOBODY
for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lagbench.core.scenario.actions import Balancer
from lagbench.core.simulation.backlog import NOBODY

Assign = Callable[[Sequence[int], Sequence[int]], list[int]]


def assign_stickily(owners: Sequence[int], members: Sequence[int]) -> list[int]:
    """Return the member of each partition, as the broker's uniform assignor (KIP-848).

    Every member gets ``partitions // members`` or one more; members beyond the partitions get
    none. A member keeps what it has up to that.
    """
    base, extra = divmod(len(owners), len(members))
    held: dict[int, list[int]] = {member: [] for member in members}
    for partition, owner in enumerate(owners):
        if owner in held:
            held[owner].append(partition)
    # Who holds more than the base keeps one more as long as there are any: fewest moves.
    ranked = sorted(members, key=lambda member: -len(held[member]))
    quota = {member: base + (place < extra) for place, member in enumerate(ranked)}
    assigned = [NOBODY] * len(owners)
    for member in members:
        for partition in held[member][: quota[member]]:
            assigned[partition] = member
    room = [m for m in members for _ in range(quota[m] - min(len(held[m]), quota[m]))]
    for partition, owner in enumerate(assigned):
        if owner < 0:
            assigned[partition] = room.pop(0)
    return assigned


def assign_cooperatively(owners: Sequence[int], members: Sequence[int]) -> list[int]:
    """Return the member of each partition, as librdkafka's cooperative-sticky assignor.

    A partition without an owner goes to the member with the fewest; then the lowest partition of
    the member with the most goes there, until they differ by one at most.
    """
    held: dict[int, list[int]] = {member: [] for member in members}

    def count(member: int) -> int:
        return len(held[member])

    for partition, owner in enumerate(owners):
        if owner in held:
            held[owner].append(partition)
    for partition in (p for p, owner in enumerate(owners) if owner not in held):
        held[min(members, key=count)].append(partition)
    while count(most := max(members, key=count)) > count(least := min(members, key=count)) + 1:
        lowest = min(held[most])
        held[most].remove(lowest)
        held[least].append(lowest)
    owner_of = {partition: member for member, own in held.items() for partition in own}
    return [owner_of[partition] for partition in range(len(owners))]


def assign_ranges(owners: Sequence[int], members: Sequence[int]) -> list[int]:
    """Return the member of each partition: contiguous ones, the first members have one more."""
    return sorted(assign_in_turn(owners, members), key=members.index)


def assign_in_turn(owners: Sequence[int], members: Sequence[int]) -> list[int]:
    """Return the member of each partition, one after the other."""
    return [members[partition % len(members)] for partition in range(len(owners))]


ASSIGNORS: Mapping[Balancer, Assign] = {
    "range": assign_ranges,
    "roundrobin": assign_in_turn,
    "cooperative-sticky": assign_cooperatively,
    "consumer": assign_stickily,
}
