"""Determine the policy in force at an instant: the run's, or one that an action swapped in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagbench.core.measures.evidence.actions import PlayedAction
from lagbench.core.policy import PolicyLimits


@dataclass(frozen=True, slots=True)
class Swap:
    """New limits from ``at`` on; until ``settled_at`` the replicas may still be of the old ones."""

    started_at: int
    at: int
    settled_at: int
    limits: PolicyLimits
    number: int  # of the action


@dataclass(frozen=True, slots=True)
class PoliciesInForce:
    """The limits of the first policy, and of those that replaced it, ascending."""

    first: PolicyLimits
    swaps: tuple[Swap, ...] = ()

    def at(self, instant: int | None) -> PolicyLimits:
        """Return the limits in force at ``instant``; None: at the start."""
        past = [s for s in self.swaps if instant is not None and s.at <= instant]
        return past[-1].limits if past else self.first

    def number_at(self, instant: int) -> int | None:
        """Return the action that put the policy of ``instant`` in place; None: the run's own."""
        past = [swap.number for swap in self.swaps if swap.at <= instant]
        return past[-1] if past else None

    def is_swapping(self, instant: int) -> bool:
        """Return whether the old policy or the new one may be in force."""
        return any(swap.started_at <= instant <= swap.settled_at for swap in self.swaps)

    @property
    def last(self) -> PolicyLimits:
        """Return the limits in force at the end."""
        return self.swaps[-1].limits if self.swaps else self.first

    @property
    def highest_ceiling(self) -> int:
        """Return the highest ceiling of all of them."""
        return max(self.first.ceiling_replicas, *(s.limits.ceiling_replicas for s in self.swaps), 0)

    def ceiling_at(self, instant: int) -> int:
        """Return the highest ceiling that may hold; in a swap the old policy's counts too."""
        ceilings = [self.at(instant).ceiling_replicas]
        before = self.first
        for swap in self.swaps:
            if swap.started_at <= instant <= swap.settled_at:
                ceilings += [before.ceiling_replicas, swap.limits.ceiling_replicas]
            before = swap.limits
        return max(ceilings)


def policies_in_force(
    first: PolicyLimits, swapped: Mapping[int, PolicyLimits], played: Sequence[PlayedAction]
) -> PoliciesInForce:
    """Return the policies of a run; a swap that was not played as planned is none.

    :param swapped: limits by the number of the action.
    """
    swaps = [
        Swap(one.started_at, one.ended_at, one.hidden_until_at, swapped[one.number], one.number)
        for one in played
        if one.number in swapped
        and one.started_at is not None
        and one.ended_at is not None
        and one.hidden_until_at is not None
    ]
    return PoliciesInForce(first, tuple(sorted(swaps, key=lambda swap: swap.at)))
