"""Replay a policy's whole loop on a virtual clock: a scenario in, replicas and measures out.

Deterministic: the seed places the hot keys and draws the phases of all clocks and the pods'
start-up times, and the same seed gives every policy the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from operator import attrgetter

import numpy as np

from lagbench.core.kubernetes import NS_PER_SECOND
from lagbench.core.policy import (
    CheckedPolicy,
    aligned_start_ns,
    at_stream_start,
    stream_windows,
)
from lagbench.core.scenario import Scenario
from lagbench.core.simulation.environment import SimulatedEnvironment
from lagbench.core.simulation.measure import measure
from lagbench.core.simulation.outcome import Simulation, Timeline
from lagbench.core.simulation.simulated_actions import SimulatedActions
from lagbench.core.simulation.simulated_autoscaler import SimulatedAutoscaler
from lagbench.core.simulation.world import World

DEFAULT_SLO_SECONDS = 30.0
_due = attrgetter("next_at")
_Row = tuple[float, float, int, int, float]


def simulate(
    scenario: Scenario,
    policy: CheckedPolicy,
    *,
    seed: int | None = None,
    policy_name: str = "policy",
    slo_seconds: float | None = None,
    environment: SimulatedEnvironment | None = None,
    draw: int = 0,
    swapped: Mapping[int, CheckedPolicy] | None = None,
) -> Simulation:
    """Return one simulated cell.

    ``seed`` replaces the scenario's; ``slo_seconds`` defaults to the scenario's limit on the time
    lag, else to 30 s. Every ``draw`` is another one of phases and start-up times on the same keys.
    ``swapped`` are the policies that actions put in place, by the action's number.

    :raises WrongInput: the simulator cannot play the policy.
    """
    if seed is not None:
        scenario = scenario.model_copy(update={"seed": seed})
    around = environment or SimulatedEnvironment()
    if around.hpa_sync_at_seconds is None:
        around = replace(around, hpa_sync_at_seconds=scenario.hpa_sync_at_seconds)
    policy, around = _placed(policy, around)
    slo = slo_seconds or scenario.slos.time_lag_p99_seconds or DEFAULT_SLO_SECONDS
    limits = policy.limits
    random = np.random.Generator(np.random.Philox(scenario.seed).jumped(draw))
    world = World(scenario, around, random, replicas=limits.floor_replicas)
    actions = SimulatedActions(
        scenario,
        world,
        lambda in_force: SimulatedAutoscaler(in_force, world, random),
        policy,
        swapped or {},
    )
    until = world.planned.duration_seconds + around.tail_seconds
    timeline = _run(world, actions, until)
    threshold = limits.lag_threshold_records
    return Simulation(
        scenario=scenario.name,
        policy=policy_name,
        seed=scenario.seed,
        slo_seconds=slo,
        measures=measure(
            world,
            until=until,
            slo_seconds=slo,
            drained_records=threshold,
            started_replicas=limits.started_replicas,
        ),
        timeline=timeline,
    )


def _placed(
    policy: CheckedPolicy, around: SimulatedEnvironment
) -> tuple[CheckedPolicy, SimulatedEnvironment]:
    """Return the policy with its cron windows in the stream, and the start that this needs."""
    windows = stream_windows(policy.manifest, where=policy.where)
    if not windows:
        return policy, around
    starts_at_ns = aligned_start_ns(windows, around.starts_at_seconds * NS_PER_SECOND)
    placed = at_stream_start(policy.manifest, starts_at_ns, where=policy.where)
    return (
        CheckedPolicy.of_run(placed, where=policy.where),
        replace(around, starts_at_seconds=starts_at_ns // NS_PER_SECOND),
    )


def _run(world: World, actions: SimulatedActions, until: float) -> Timeline:
    """Let the clocks act in the order of their instants; one row per sync and per change."""
    fleet, backlog = world.fleet, world.backlog
    rows: list[_Row] = []
    shown = -1
    while clocks := actions.clocks:
        clock = min(clocks, key=_due)
        if clock.next_at > until:
            break
        world.advance(clock.next_at)
        clock.run()
        if not clock.is_shown and fleet.spec_replicas == shown:
            continue
        shown = fleet.spec_replicas
        wish = nan if actions.scaler.wish is None else float(actions.scaler.wish)
        lag = backlog.lag_at(world.second)
        rows.append((world.second, lag, fleet.spec_replicas, fleet.ready_count, wish))
    world.advance(until)
    second, lags, spec, ready, wishes = zip(*rows, strict=True) if rows else ((),) * 5
    return Timeline(
        np.array(second),
        np.array(lags),
        np.array(spec, dtype=np.int64),
        np.array(ready, dtype=np.int64),
        np.array(wishes),
    )
