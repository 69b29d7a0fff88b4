"""Determine what was in force at an instant: actions may swap the policy and add partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lagbench.core.measures.evidence.played_actions import PlayedAction
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.actions import ActionBase, GrowPartitions


@dataclass(frozen=True, slots=True)
class Swap:
    """New limits from ``at`` on; until ``settled_at`` the replicas may still be of the old ones."""

    started_at: int
    at: int
    settled_at: int
    limits: PolicyLimits
    number: int  # of the action

    def is_settling(self, instant: int) -> bool:
        """Return whether the old policy or the new one may be in force."""
        return self.started_at <= instant <= self.settled_at


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
        return any(swap.is_settling(instant) for swap in self.swaps)

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
        before = [self.first, *(swap.limits for swap in self.swaps)]
        of_swaps = [
            limits.ceiling_replicas
            for old, swap in zip(before, self.swaps, strict=False)
            if swap.is_settling(instant)
            for limits in (old, swap.limits)
        ]
        return max(self.at(instant).ceiling_replicas, *of_swaps, 0)


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


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """``first`` partitions, then each growth as (instant, partitions), ascending."""

    first: int
    growths: tuple[tuple[int, int], ...] = ()

    def at(self, instant: int | None) -> int:
        """Return the partitions at ``instant`` (unix ns); None: at the start."""
        past = [count for at, count in self.growths if instant is not None and at <= instant]
        return past[-1] if past else self.first

    @property
    def last(self) -> int:
        """Return the partitions at the end."""
        return self.growths[-1][1] if self.growths else self.first


def topic_partitions(
    first: int, planned: Sequence[ActionBase], played: Sequence[PlayedAction]
) -> TopicPartitions:
    """Return the partitions over the run: new ones count from the end of their action."""
    growths = [
        (of_run.ended_at, action.partitions)
        for action, of_run in zip(planned, played, strict=True)
        if isinstance(action, GrowPartitions) and of_run.ended_at is not None and not of_run.problem
    ]
    return TopicPartitions(first, tuple(sorted(growths)))
