"""Determine which actions were played, and what each may hide from the evidence.

An action is part of the plan: what it disturbs does not invalidate the run. It excuses by time and
by cause. A record is left out only if it lies inside the window of an action, from the stamp of its
begin to the stamp of its end plus a bound for the recovery, and shows a disturbance that this kind
of action causes. The same disturbance outside of the window, or of another cause, counts as
without an action. An SLO is never excused by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.actions import (
    ActionBase,
    ActionKind,
    Balancer,
    GrowPartitions,
    RollingRestart,
)
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import ActionEnded, ActionStarted
from lagbench.core.telemetry.records_of_recorder import What

Disturbance = Literal["backlog", "members", "bounds", "rebalance"]
"""``backlog``: messages wait in the producer's client, or are missing in the log, though they are
due. ``members``: the group has other members than the run has Ready pods. ``bounds``: the replicas
are those of the policy before. ``rebalance``: the group rebalances without a scaling."""
_READING_NS = 2 * NANOSECONDS
"""The recorder reads once a second; a reading may take a second."""
LATE_SECONDS = 5.0
"""An action that begins later than this after its planned instant was not played as planned."""


@dataclass(frozen=True, slots=True)
class Hides:
    """The evidence that a kind of action may hide, until ``recovery_seconds`` after its end."""

    disturbances: frozenset[Disturbance] = frozenset()
    readings: frozenset[What] = frozenset()  # that may fail meanwhile
    recovery_seconds: float = 0.0
    is_of_targets: bool = False
    """True: its targets are pods, and it explains no more members than it has targets."""


_OF_MEMBERS: frozenset[Disturbance] = frozenset({"members", "rebalance"})
HIDES: Mapping[ActionKind, Hides] = {
    # A killed member stays until its session ends: 45 s under KIP-848, the longest here.
    "kill_pod": Hides(_OF_MEMBERS, recovery_seconds=60.0, is_of_targets=True),
    # The broker has removed the pod in its pause, or does so at once: it joins again.
    "pause_pod": Hides(_OF_MEMBERS, recovery_seconds=30.0, is_of_targets=True),
    # The next sync of the HPA (15 s) brings the replicas inside the new bounds.
    "swap_policy": Hides(frozenset({"bounds"}), recovery_seconds=20.0),
    # Without autoscaler or lag scaler everything can still be read: all SLOs judge the effect.
    "autoscaler_down": Hides(),
    "lag_scaler_down": Hides(),
    # Pods that did not leave in order stay members until their sessions end.
    "rolling_restart": Hides(_OF_MEMBERS, recovery_seconds=60.0, is_of_targets=True),
    # Everything can still be read, and the expected work is that of the slow downstream.
    "slow_downstream": Hides(),
    # Members whose sessions have ended join again; a session may last 45 s.
    "broker_unreachable": Hides(_OF_MEMBERS, recovery_seconds=60.0),
    # The producer's client sends what it held within 2 s of the broker's start (measured); clients
    # look for a broker every second, for leaders every 10 s, and sessions may last 45 s.
    "broker_restart": Hides(
        _OF_MEMBERS | {"backlog"}, frozenset({"lag", "group", "broker"}), recovery_seconds=60.0
    ),
    # Members see new partitions at their next look at the metadata, 10 s later at most; a
    # rebalance begins then, and one of two steps has a second one. A broker that does not lead a
    # new partition yet fails the reading of all.
    "grow_partitions": Hides(frozenset({"rebalance"}), frozenset({"lag"}), recovery_seconds=20.0),
}


class PlayedAction(MeasureModel):
    """An action of the plan as the player stamped it.

    ``problem`` is why it was not played as planned; empty: it was. ``hidden_until_at`` is the end
    of its window; None: it hides nothing.
    """

    number: int  # its place in the scenario's list, from 0
    kind: ActionKind
    targets: tuple[str, ...] = ()
    came: tuple[str, ...] = ()  # pods that it put in place of others
    started_at: int | None = None
    ended_at: int | None = None
    hidden_until_at: int | None = None
    problem: str = ""
    detail: str = ""

    @property
    def name(self) -> str:
        """Return the kind with the place in the list."""
        return f"{self.kind} (actions.{self.number})"


@dataclass(frozen=True, slots=True)
class Hidden:
    """The windows of the run's actions."""

    actions: Sequence[PlayedAction] = ()

    def by(
        self,
        disturbance: Disturbance,
        from_at: int,
        until_at: int | None = None,
        *,
        pods: Collection[str] = (),
        count: int = 0,
    ) -> PlayedAction | None:
        """Return the action whose window holds this disturbance, at an instant or all the time.

        With ``pods``, all of them must be its targets or have come in their place. With ``count``
        (of members), an action on pods must have as many targets.
        """
        for action in self._around(from_at, from_at if until_at is None else until_at):
            hides = HIDES[action.kind]
            is_of_pods = {*pods} <= {*action.targets, *action.came}
            is_enough = not hides.is_of_targets or count <= len(action.targets)
            if disturbance in hides.disturbances and is_of_pods and is_enough:
                return action
        return None

    def reading(self, what: What, from_at: int, until_at: int) -> PlayedAction | None:
        """Return the action whose window holds the whole gap in the readings of ``what``.

        A gap begins with the last reading before it, which is one from before the action.
        """
        for action in self._around(from_at + _READING_NS, until_at):
            if what in HIDES[action.kind].readings:
                return action
        return None

    def _around(self, from_at: int, until_at: int) -> Iterator[PlayedAction]:
        for action in self.actions:
            start, end = action.started_at, action.hidden_until_at
            if start is not None and end is not None and start <= from_at <= until_at <= end:
                yield action


NOTHING_HIDDEN = Hidden()


def played_actions(
    records: Sequence[TelemetryRecord],
    planned: Sequence[ActionBase],
    *,
    stream_started_at: int | None,
) -> tuple[PlayedAction, ...]:
    """Return each planned action with its stamps, in the order of the scenario."""
    starts: dict[int, list[ActionStarted]] = {}
    ends: dict[int, list[ActionEnded]] = {}
    for record in records:
        if isinstance(record, ActionStarted):
            starts.setdefault(record.number, []).append(record)
        elif isinstance(record, ActionEnded):
            ends.setdefault(record.number, []).append(record)
    return tuple(
        _played(number, action, starts.get(number, []), ends.get(number, []), stream_started_at)
        for number, action in enumerate(planned)
    )


def balancers_at(at: int, planned: Scenario, played: Sequence[PlayedAction]) -> frozenset[Balancer]:
    """Return the balancers that a pod may start with at ``at``.

    A rolling restart may bring another one. While it lasts, pods of both kinds start.
    """
    found: frozenset[Balancer] = frozenset({planned.consumer.balancer})
    for action in played:
        of_plan = planned.actions[action.number]
        if not isinstance(of_plan, RollingRestart) or of_plan.balancer is None:
            continue
        if action.started_at is None or at < action.started_at:
            continue
        is_over = action.ended_at is not None and at > action.ended_at
        found = frozenset({of_plan.balancer}) | (frozenset() if is_over else found)
    return found


def _played(
    number: int,
    action: ActionBase,
    starts: Sequence[ActionStarted],
    ends: Sequence[ActionEnded],
    stream_started_at: int | None,
) -> PlayedAction:
    kind: ActionKind = action.kind
    start, end = next(iter(starts), None), next(iter(ends), None)
    due_at = None
    if action.at_seconds is not None and stream_started_at is not None:
        due_at = stream_started_at + round(action.at_seconds * NANOSECONDS)
    problem = _problem(kind, starts, ends, due_at)
    until_at = None
    if end is not None and not problem:
        until_at = end.at + round(HIDES[kind].recovery_seconds * NANOSECONDS)
    return PlayedAction(
        number=number,
        kind=kind,
        targets=tuple(start.targets) if start is not None else (),
        came=tuple(end.came) if end is not None else (),
        started_at=start.at if start is not None else None,
        ended_at=end.at if end is not None else None,
        hidden_until_at=until_at,
        problem=problem,
        detail=end.detail if end is not None else "",
    )


def _problem(
    kind: str, starts: Sequence[ActionStarted], ends: Sequence[ActionEnded], due_at: int | None
) -> str:
    """Return why the stamps are not those of one action that was played as planned."""
    late_seconds = 0.0
    if due_at is not None and starts:
        late_seconds = (starts[0].at - due_at) / NANOSECONDS
    problems = {
        "was not played": not starts,
        f"was played {max(len(starts), len(ends))} times": max(len(starts), len(ends)) > 1,
        "is stamped as another kind": {*(r.action for r in starts), *(r.action for r in ends)}
        - {kind}
        != set(),
        "began and never ended": not ends,
        f"failed: {ends[0].error if ends else ''}": bool(ends and ends[0].error),
        "is stamped as ended before it began": bool(ends and starts) and ends[0].at < starts[0].at,
        f"began {late_seconds:+.1f} s from its planned instant": abs(late_seconds) > LATE_SECONDS,
    }
    return next((text for text, is_so in problems.items() if is_so), "")


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
