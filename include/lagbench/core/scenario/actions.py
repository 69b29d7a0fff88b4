"""Define the actions of a scenario: things that a program of the run does to it on purpose.

Each kind is a model of its own, chosen by ``kind``. An action begins at a second of the stream
(``at_seconds``) or in a state of the run (``at``). One that lasts has ``for_seconds``, and is
undone after that time. Its pods are drawn by the run's seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from lagbench.core.scenario.conf_limits import Reach, StrictModel
from lagbench.core.scenario.message_costs import MOST_FACTOR, DownstreamPace, Slowdown
from lagbench.core.scenario.profiles import LONGEST_SECONDS

Balancer = Literal["range", "roundrobin", "cooperative-sticky", "consumer"]
"""``consumer`` is KIP-848: the broker assigns."""
RebalanceProtocol = Literal["eager", "cooperative", "consumer"]
"""``eager``: every member gives up all its partitions; else a rebalance moves single ones."""

_PROTOCOLS: Mapping[str, RebalanceProtocol] = {
    "range": "eager",
    "roundrobin": "eager",
    "cooperative-sticky": "cooperative",
    "consumer": "consumer",
}

CLASSIC_SESSION_SECONDS = 10.0
"""The default of lagbench's own consumer (``--session-timeout-ms``), for the classic protocols."""
BROKERS_SESSION_SECONDS = 45.0
"""Kafka's default of group.consumer.session.timeout.ms, used by the new protocol."""
CLIENTS_SESSION_SECONDS = 45.0
"""Kafka's default of ``session.timeout.ms``: a dead member of other code stays that long."""
LONGEST_SESSION_SECONDS = max(CLASSIC_SESSION_SECONDS, BROKERS_SESSION_SECONDS)
"""The longest session of lagbench's own members."""


def rebalance_protocol(balancer: str) -> RebalanceProtocol | None:
    """Return how ``balancer`` hands partitions over; None for an unknown name."""
    return _PROTOCOLS.get(balancer)


def rejected_move(before: Balancer, after: Balancer) -> str | None:
    """Return why a live group cannot move between balancers pod by pod; None: it can.

    Source: tests/integration/test_moved_group.py, on a real broker with librdkafka.
    """
    if before in (after, "consumer"):
        return None
    if after == "consumer":
        if before == "cooperative-sticky":
            return "librdkafka puts user data into assignments, which the broker would lose"
        return None
    return "its members name one balancer only, so old and new ones have none in common"


RunState = Literal["lag_drained"]
"""``lag_drained``: after the last spike, the lag is what a group at rest has."""
MOST_PARTITIONS = 1000
ROLLOUT_SECONDS = 600.0
"""The longest that a rollout of the consumers may take."""
AROUND_SECONDS = 60.0
"""For the begin and the end of the last action: a pod's restart, the player's own end."""
Drawn = TypeVar("Drawn")

ActionKind = Literal[
    "kill_pod",
    "pause_pod",
    "swap_policy",
    "autoscaler_down",
    "lag_scaler_down",
    "rolling_restart",
    "slow_downstream",
    "broker_unreachable",
    "broker_restart",
    "grow_partitions",
]


class ActionBase(StrictModel):
    """The fields of every action: its begin."""

    kind: ActionKind
    at_seconds: float | None = Field(
        None, ge=0, le=LONGEST_SECONDS, description="second of the stream at which it begins"
    )
    at: RunState | None = Field(None, description="state of the run in which it begins")


class LastingAction(ActionBase):
    """An action that ends by itself after a time."""

    for_seconds: float = Field(gt=0, le=LONGEST_SECONDS, description="until it is undone")


class KillPod(ActionBase):
    """SIGKILL to the processes of consumer pods; their containers start again."""

    kind: Literal["kill_pod"]
    pods: int = Field(1, ge=1, le=1000, description="how many, drawn by the seed")


class PausePod(LastingAction):
    """SIGSTOP to the processes of consumer pods, and SIGCONT after ``for_seconds``."""

    kind: Literal["pause_pod"]
    pods: int = Field(1, ge=1, le=1000, description="how many, drawn by the seed")


class SwapPolicy(ActionBase):
    """Another policy in place of the one in force; it stays until the run's end."""

    kind: Literal["swap_policy"]
    policy: str = Field(min_length=1, description="the new policy: a name, or a path")


class AutoscalerDown(LastingAction):
    """No autoscaler for ``for_seconds``: its Deployment has no replica."""

    kind: Literal["autoscaler_down"]


class LagScalerDown(LastingAction):
    """No lag scaler for ``for_seconds``: the run's Deployment of it has no replica."""

    kind: Literal["lag_scaler_down"]


class RollingRestart(ActionBase):
    """All consumer pods are replaced by the Deployment's rollout; it ends with the rollout.

    With a ``balancer`` the group moves to another way of assigning partitions. With ``env`` an own
    consumer is deployed with other settings.
    """

    kind: Literal["rolling_restart"]
    balancer: Balancer | None = Field(
        None, description="consumer.balancer of the new pods; None: as before"
    )
    env: Annotated[Mapping[str, str], Reach.PROCESS] = Field(
        {},
        description="variables of the new pods' container with consumer.kind own; they replace "
        "those of the same names",
    )
    at_once: bool = Field(
        False, description="stop all pods before the first new one (strategy Recreate)"
    )


class SlowDownstream(LastingAction):
    """Each downstream write costs ``factor`` times ``consumer.process_ms`` for ``for_seconds``."""

    kind: Literal["slow_downstream"]
    factor: float = Field(gt=1, le=MOST_FACTOR, description="cost of a write, as a multiple")


class BrokerUnreachable(LastingAction):
    """The consumers' connections to the broker are disturbed for ``for_seconds``; no others are."""

    kind: Literal["broker_unreachable"]
    mode: Literal["blackhole", "latency", "reset"] = Field(
        "blackhole",
        description="blackhole: connections stay open and nothing passes; reset: they are reset, "
        "new ones too",
    )
    latency_ms: float = Field(
        0, ge=0, le=60_000, description="mode latency: added each way, in milliseconds"
    )


class BrokerRestart(LastingAction):
    """The embedded broker is stopped, and started again after ``for_seconds``."""

    kind: Literal["broker_restart"]
    for_seconds: float = Field(
        ge=0, le=3600, description="from the end of the broker's process to its next start"
    )


class GrowPartitions(ActionBase):
    """The events topic gets more partitions, permanently: Kafka cannot remove them."""

    kind: Literal["grow_partitions"]
    partitions: int = Field(
        ge=2, le=MOST_PARTITIONS, description="in total; more than the topic has by then"
    )


Action = Annotated[
    KillPod
    | PausePod
    | SwapPolicy
    | AutoscalerDown
    | LagScalerDown
    | RollingRestart
    | SlowDownstream
    | BrokerUnreachable
    | BrokerRestart
    | GrowPartitions,
    Field(discriminator="kind"),
]


def actions_seconds(actions: Sequence[ActionBase], drain_seconds: float) -> float:
    """Return how long the actions may take after the planned window; 0 without actions."""
    if not actions:
        return 0.0
    lasting = sum(action.for_seconds for action in actions if isinstance(action, LastingAction))
    return drain_seconds + lasting + ROLLOUT_SECONDS + AROUND_SECONDS


def balancers_of(first: Balancer, actions: Sequence[ActionBase]) -> tuple[Balancer, ...]:
    """Return the balancers of a run in their order: ``first``, then those of rolling restarts."""
    moved = (action.balancer for action in actions if isinstance(action, RollingRestart))
    return (first, *(name for name in moved if name is not None))


def begin_text(action: ActionBase) -> str:
    """Return when the action begins, in words."""
    if action.at is not None:
        return f"when the state is {action.at}"
    return f"at {action.at_seconds:g} s"


def restart_text(action: RollingRestart) -> str:
    """Return what the new pods have other than before, in words; empty: nothing."""
    if action.balancer is not None:
        return f"to the balancer {action.balancer}"
    return f"with other values of {', '.join(action.env)}" if action.env else ""


def drawn(candidates: Sequence[Drawn], count: int, *, seed: int, number: int) -> list[Drawn]:
    """Return ``count`` of ``candidates``, or all if there are fewer, in their order."""

    def rank(place: int) -> bytes:
        return hashlib.sha256(f"{seed}:{number}:{place}".encode()).digest()

    places = sorted(range(len(candidates)), key=rank)[:count]
    return [candidates[place] for place in sorted(places)]


def downstream_pace(actions: Sequence[ActionBase]) -> DownstreamPace:
    """Return the pace of the downstream under the actions."""
    return DownstreamPace(
        Slowdown(a.at_seconds, a.at_seconds + a.for_seconds, a.factor)
        for a in actions
        if isinstance(a, SlowDownstream) and a.at_seconds is not None
    )


def action_problems(
    actions: Sequence[ActionBase], *, partitions: int, workload: str, kind: str
) -> Iterator[str]:
    """Yield what is wrong with the actions of a run, whose consumers are of a ``kind``."""
    for number, action in enumerate(actions):
        place = f"actions.{number}"
        yield from (f"{place}.{problem}" for problem in _begin_problems(action))
        if isinstance(action, RollingRestart):
            problems = _restart_problems(action, workload, kind)
            yield from (f"{place}.{problem}" for problem in problems)
        if any(_overlap(other, action) for other in actions[:number]):
            yield f"{place}.at_seconds must be outside of the time of the other {action.kind}"
    growths = (
        (one.at_seconds or 0.0, number, one.partitions)
        for number, one in enumerate(actions)
        if isinstance(one, GrowPartitions)
    )
    second, count = -1.0, partitions
    for at, number, wanted in sorted(growths):
        if at == second:
            yield f"actions.{number}.at_seconds must be another one: a grow_partitions is there"
        if wanted <= count:
            yield (
                f"actions.{number}.partitions must be above {count}, which the topic has by then: "
                "Kafka cannot remove partitions"
            )
        second, count = at, wanted


def _begin_problems(action: ActionBase) -> Iterator[str]:
    if (action.at_seconds is None) == (action.at is None):
        yield "at_seconds must be given, or at, and not both"
    if action.at_seconds is None and isinstance(action, SlowDownstream):
        yield "at_seconds must be given: the pods know its time from their start"
    if action.at_seconds is None and isinstance(action, GrowPartitions):
        yield "at_seconds must be given: messages go by their planned instant"
    is_slow = isinstance(action, BrokerUnreachable) and action.mode == "latency"
    if isinstance(action, BrokerUnreachable) and is_slow != (action.latency_ms > 0):
        yield "latency_ms must be above 0 with mode latency, and 0 with others"


def _restart_problems(action: RollingRestart, workload: str, kind: str) -> Iterator[str]:
    if action.at_once and workload != "Deployment":
        yield (
            f"at_once must be false with consumer.workload {workload}: only a Deployment has the "
            "strategy Recreate"
        )
    if action.balancer is not None and kind != "stand-in":
        why = "joins no group" if kind == "spark" else "decides its balancer itself"
        yield f"balancer must be left out: consumer.kind {kind} {why}"
    if action.env and kind != "own":
        yield "env must be left out: only with consumer.kind own"


def _overlap(first: ActionBase, second: ActionBase) -> bool:
    """Return whether one begins while another of its kind lasts that cannot lie over it."""
    once = (SlowDownstream, BrokerUnreachable, BrokerRestart)
    if not isinstance(first, once) or not isinstance(second, once) or first.kind != second.kind:
        return False
    if first.at_seconds is None or second.at_seconds is None:
        return False
    before, after = sorted(
        ((one.at_seconds or 0.0, one.for_seconds) for one in (first, second)),
        key=lambda one: one[0],
    )
    return after[0] < before[0] + before[1]
