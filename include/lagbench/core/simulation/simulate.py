"""Replay a policy's whole loop on a virtual clock: a scenario in, replicas and measures out.

The inputs (lag, pods, time) are simulated. The decisions are not: the scale loop, KEDA's lag rules,
the lag scaler's rule and the HPA's sync are the functions that the live programs call.
Deterministic: the seed places the hot keys and draws the phases of all clocks and the pods'
start-up times, and the same seed gives every policy the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf, nan
from operator import attrgetter

import numpy as np

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.measures.model import Reals
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.stream_windows import aligned_start_ns, at_stream_start
from lagbench.core.scenario.actions import (
    ActionBase,
    AutoscalerDown,
    GrowPartitions,
    KillPod,
    SlowDownstream,
    SwapPolicy,
    drawn,
)
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.simulated_autoscaler import SimulatedAutoscaler, SimulatedClock
from lagbench.core.simulation.simulated_world import SimulatedEnvironment, World
from lagbench.core.simulation.simulation_measures import (
    Simulation,
    Timeline,
    lag_lines,
    measure,
    readings,
)

DEFAULT_SLO_SECONDS = 30.0
_SIMULATED = (KillPod, SwapPolicy, AutoscalerDown, SlowDownstream, GrowPartitions)
_due = attrgetter("next_at")
_Row = tuple[float, int, int, float]


def is_simulated(action: ActionBase) -> bool:
    """Return whether the simulator plays the action: its kind, at a second of the stream."""
    return isinstance(action, _SIMULATED) and action.at_seconds is not None


def left_out(scenario: Scenario) -> Iterator[str]:
    """Yield the fields and the kinds of actions of ``scenario`` that are not simulated."""
    consumer = scenario.consumer
    yield from (one.kind for one in scenario.actions if not is_simulated(one))
    if consumer.kind != "stand-in":
        yield f"consumer.kind {consumer.kind}"
    if consumer.static_membership:
        yield "consumer.static_membership"
    if scenario.poison is not None:
        yield "poison"
    if scenario.second_group is not None:
        yield "second_group"


def simulate(
    scenario: Scenario,
    policy: Policy,
    *,
    seed: int | None = None,
    policy_name: str = "policy",
    environment: SimulatedEnvironment | None = None,
    draw: int = 0,
    swapped: Mapping[int, Policy] | None = None,
) -> Simulation:
    """Return one simulated cell.

    ``seed`` replaces the scenario's. Every ``draw`` is another one of phases and start-up times on
    the same keys. ``swapped`` are the policies that actions put in place, by the action's number.

    :raises WrongInput: the simulator cannot play the policy.
    """
    if seed is not None:
        scenario = scenario.model_copy(update={"seed": seed})
    around = environment or SimulatedEnvironment()
    if around.hpa_sync_at_seconds is None:
        around = replace(around, hpa_sync_at_seconds=scenario.hpa_sync_at_seconds)
    policy, around = _placed(policy, around)
    slo = scenario.slos.time_lag_p99_seconds or DEFAULT_SLO_SECONDS
    limits = policy.limits
    random = np.random.Generator(np.random.Philox(scenario.seed).jumped(draw))
    world = World(scenario, around, random, replicas=limits.floor_replicas)
    until = world.planned.duration_seconds + around.tail_seconds
    played = _Played(
        world, lambda in_force: SimulatedAutoscaler(in_force, world, random), policy, swapped or {}
    )
    rows = played.run(until)
    second, spec, ready, wishes = zip(*rows, strict=True) if rows else ((),) * 4
    seconds: Reals = np.array(second, dtype=np.float64)
    instants, lags = lag_lines(world, until)
    read = readings(world, instants, lags, until, random.uniform(0.0, around.reading_seconds))
    return Simulation(
        scenario=scenario.name,
        policy=policy_name,
        seed=scenario.seed,
        slo_seconds=slo,
        measures=measure(world, instants, lags, read, limits, until=until, slo_seconds=slo),
        timeline=Timeline(
            seconds,
            np.interp(seconds, instants, lags.sum(axis=1)),  # it is straight between instants
            np.array(spec, dtype=np.int64),
            np.array(ready, dtype=np.int64),
            np.array(wishes, dtype=np.float64),
        ),
        total_lag=read,
    )


def _placed(policy: Policy, around: SimulatedEnvironment) -> tuple[Policy, SimulatedEnvironment]:
    """Return the policy with its cron windows in the stream, and the start that this needs."""
    windows = policy.windows
    if not windows:
        return policy, around
    starts_at_ns = aligned_start_ns(windows, around.starts_at_seconds * NS_PER_SECOND)
    placed = at_stream_start(policy.manifest, starts_at_ns, where=policy.where)
    return (
        Policy.read(placed, where=policy.where, kubernetes=policy.limits.flags.kubernetes),
        replace(around, starts_at_seconds=starts_at_ns // NS_PER_SECOND),
    )


class _Played:
    """The autoscaler in force, and the actions that are to come."""

    def __init__(
        self,
        world: World,
        start: Callable[[Policy], SimulatedAutoscaler],
        policy: Policy,
        swapped: Mapping[int, Policy],
    ) -> None:
        self._world, self._start, self._swapped = world, start, swapped
        self._scaler = start(policy)
        self._actions: list[SimulatedClock] = []
        for number, action in enumerate(world.scenario.actions):
            if action.at_seconds is not None:
                self._plan(number, action, action.at_seconds)

    def run(self, until: float) -> list[_Row]:
        """Let the clocks act in the order of their instants; a row per sync and per change."""
        world, fleet = self._world, self._world.fleet
        rows: list[_Row] = []
        shown = -1
        while clocks := [*self._scaler.clocks, *self._actions]:
            clock = min(clocks, key=_due)
            if clock.next_at > until:
                break
            world.advance(clock.next_at)
            clock.run()
            if not clock.is_shown and fleet.spec_replicas == shown:
                continue
            shown = fleet.spec_replicas
            wish = nan if self._scaler.wish is None else float(self._scaler.wish)
            rows.append((world.second, fleet.spec_replicas, fleet.ready_count, wish))
        world.advance(until)
        return rows

    def _plan(self, number: int, action: ActionBase, at: float) -> None:
        if isinstance(action, KillPod):
            self._once(at, lambda: self._kill(number, action.pods))
        elif isinstance(action, AutoscalerDown):
            self._once(at, lambda: self._set_down(is_down=True))
            self._once(at + action.for_seconds, lambda: self._set_down(is_down=False))
        elif isinstance(action, GrowPartitions):
            self._once(at, lambda: self._world.grow(action.partitions))
        elif number in self._swapped:
            self._once(at, lambda: self._swap(self._swapped[number]))

    def _once(self, at: float, act: Callable[[], None]) -> None:
        self._actions.append(SimulatedClock(at, inf, act))

    def _kill(self, number: int, count: int) -> None:
        fleet, scenario = self._world.fleet, self._world.scenario
        ready = [pod.number for pod in fleet.alive if pod.ready_at is not None]
        killed = drawn(ready, count, seed=scenario.seed, number=number)
        fleet.kill(killed, self._world.second, for_seconds=scenario.longest_session_seconds)

    def _set_down(self, *, is_down: bool) -> None:
        self._scaler.is_down = is_down
        if not is_down:
            self._scaler.restart()

    def _swap(self, policy: Policy) -> None:
        before, self._scaler = self._scaler, self._start(policy)
        self._scaler.take_over(before)
