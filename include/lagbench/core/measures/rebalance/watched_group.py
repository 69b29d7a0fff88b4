"""Count the rebalances of a group that is only looked at from outside, now and then.

A broker has no count of rebalances that its clients can read, and librdkafka does not report the
generation or the epoch of a group. Therefore two looks are compared. A rebalance is seen when the
coordinator reports that one is in progress, or when a member joined, left or holds other partitions
than at the look before.

Looks that see movement less than QUIET_SECONDS apart belong to one rebalance, as in an episode of a
run: an incremental rebalance has two rounds. Two things remain unseen between two looks: a second
rebalance, and a rebalance after which each member holds the same partitions as before.
"""

from __future__ import annotations

from collections.abc import Iterable

from lagbench.core.measures.model import MeasureModel
from lagbench.core.measures.rebalance.episodes import QUIET_SECONDS

SETTLED_STATES = frozenset({"STABLE", "EMPTY", "DEAD"})
"""In every other state partitions are being assigned. librdkafka 2.16 has no names for the states
ASSIGNING and RECONCILING of the consumer protocol and reports UNKNOWN."""

Holding = tuple[str, tuple[tuple[str, int], ...]]
"""A member's instance id, else its member id, and its partitions as (topic, partition)."""


class GroupLook(MeasureModel):
    """The group at one instant (unix seconds), as its coordinator described it."""

    at_seconds: float
    state: str
    holdings: tuple[Holding, ...]

    @classmethod
    def of(cls, at_seconds: float, state: str, holdings: Iterable[Holding]) -> GroupLook:
        """Return the look; the order of the members does not count."""
        return cls(at_seconds=at_seconds, state=state, holdings=tuple(sorted(holdings)))

    def has_moved_since(self, before: GroupLook | None) -> bool:
        """Return whether a rebalance is in progress or has happened since the look before."""
        if self.state not in SETTLED_STATES:
            return True
        if before is None or before.state not in SETTLED_STATES:
            return False  # the movement was seen already; its result is no other rebalance
        return self.holdings != before.holdings


class WatchedGroup(MeasureModel):
    """The looks at a group so far: the rebalances seen, and how closely it was watched."""

    last: GroupLook
    looks: int = 1
    rebalances: int = 0
    moved_at_seconds: float | None = None
    most_members: int = 0
    longest_gap_seconds: float = 0.0

    @classmethod
    def first(cls, look: GroupLook) -> WatchedGroup:
        """Return the watch after its first look; a rebalance in progress counts."""
        moved = look.has_moved_since(None)
        return cls(
            last=look,
            rebalances=int(moved),
            moved_at_seconds=look.at_seconds if moved else None,
            most_members=len(look.holdings),
        )

    def after(self, look: GroupLook) -> WatchedGroup:
        """Return the watch after one more look."""
        moved = look.has_moved_since(self.last)
        last_moved = self.moved_at_seconds
        was_settled = self.last.state in SETTLED_STATES
        is_another = moved and (
            last_moved is None or (was_settled and look.at_seconds - last_moved >= QUIET_SECONDS)
        )
        return WatchedGroup(
            last=look,
            looks=self.looks + 1,
            rebalances=self.rebalances + int(is_another),
            moved_at_seconds=look.at_seconds if moved else last_moved,
            most_members=max(self.most_members, len(look.holdings)),
            longest_gap_seconds=self.until(look.at_seconds),
        )

    def until(self, at_seconds: float) -> float:
        """Return the longest time without a look, if none came before ``at_seconds``."""
        return max(self.longest_gap_seconds, at_seconds - self.last.at_seconds)
