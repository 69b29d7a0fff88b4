"""Which member of the group reads which partition: evenly, and moving as little as possible."""

from __future__ import annotations

from collections.abc import Sequence


def assign_stickily(owners: Sequence[int], members: Sequence[int]) -> list[int]:
    """Return the member of each partition; ``owners`` are the current ones, -1 for none.

    Every member gets ``partitions // members`` or one more; members beyond the partitions get
    none. A member keeps what it has up to that.
    """
    if not members:
        return [-1] * len(owners)
    base, extra = divmod(len(owners), len(members))
    held: dict[int, list[int]] = {member: [] for member in members}
    for partition, owner in enumerate(owners):
        if owner in held:
            held[owner].append(partition)
    # Who holds more than the base keeps one more as long as there are any: fewest moves.
    ranked = sorted(members, key=lambda member: -len(held[member]))
    quota = {member: base + (place < extra) for place, member in enumerate(ranked)}
    assigned = [-1] * len(owners)
    for member in members:
        for partition in held[member][: quota[member]]:
            assigned[partition] = member
    room = [m for m in members for _ in range(quota[m] - min(len(held[m]), quota[m]))]
    for partition, owner in enumerate(assigned):
        if owner < 0:
            assigned[partition] = room.pop(0)
    return assigned
