"""How many seconds the simulator plays in one: a day of 24 partitions under each kind of policy."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.policy.policy import check_policy
from lagbench.core.scenario.profiles import TracePoint, TraceProfile
from lagbench.core.scenario.scenario import ConsumerSettings, Keys, Scenario
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from tests.benchmarks.figures import Figure, at_least

NAME = "simulate"
AIM_SIMULATED_SECONDS_PER_SECOND = 200_000
PARTITIONS = 24
DAY_SECONDS = 6 * 3600.0
SHORTEST_DAY_SECONDS = 3600.0
STEP_SECONDS = 60.0
LAG_THRESHOLD = "30000"  # a pod's 4,000/s x an SLO of 10 s x 0.75
REPEATS = 5


def measure(scale: float) -> Iterator[Figure]:
    """Yield simulated seconds per second, the best of five and the worst beside it."""
    seconds, around = max(DAY_SECONDS * scale, SHORTEST_DAY_SECONDS), SimulatedEnvironment()
    scenario = _day(seconds)
    played = around.lead_seconds + seconds + around.tail_seconds
    for name, policy in _policies().items():
        walls, events = [], 0
        checked = check_policy(policy, where=name)
        for _ in range(REPEATS):
            began_at = time.perf_counter()
            cell = simulate(scenario, checked, policy_name=name, environment=around)
            walls.append(time.perf_counter() - began_at)
            events = cell.measures.replica_changes
        yield Figure(
            f"{name}: simulated seconds per second",
            played / min(walls),
            "s/s",
            at_least(AIM_SIMULATED_SECONDS_PER_SECOND),
            f"{played:,.0f} s in {min(walls):.3f} s, worst of {REPEATS} {max(walls):.3f} s; "
            f"{PARTITIONS} partitions, {events} scaling events",
        )


def _day(seconds: float) -> Scenario:
    """Return a load that rises and falls once, its rate set again every minute."""
    points = [
        TracePoint(
            second=index * STEP_SECONDS,
            rate_per_second=round(
                30_000 - 24_000 * math.cos(2 * math.pi * index * STEP_SECONDS / seconds), 1
            ),
        )
        for index in range(int(seconds / STEP_SECONDS) + 1)
    ]
    return Scenario(
        name="day",
        description="a day in six hours",
        partitions=PARTITIONS,
        keys=Keys(zipf_s=0.8),
        profile=TraceProfile(kind="trace", file="day.csv", points=tuple(points)),
        consumer=ConsumerSettings(process_ms=2, concurrency=8),
        policy="lag",
        seed=3,
    )


def _policies() -> Mapping[str, Mapping[str, Any]]:
    kafka = {"topic": "events", "lagThreshold": LAG_THRESHOLD, "offsetResetPolicy": "earliest"}
    sustained = {**kafka, "sustainSeconds": "60", "samplingInterval": "10", "windowSize": "30"}
    address = {"scalerAddress": "lagbench-lag-scaler.lagbench:6000"}
    return {
        "kafka trigger, pollingInterval 30": _policy("kafka", kafka, polling=30),
        "kafka trigger, pollingInterval 5": _policy("kafka", kafka, polling=5),
        "lag scaler, sampling 10": _policy("external", {**address, **sustained}, polling=30),
    }


def _policy(kind: str, metadata: Mapping[str, str], *, polling: int) -> Mapping[str, Any]:
    group = {"bootstrapServers": "kafka:9092", "consumerGroup": "enrich"}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "consumer", "namespace": "lagbench"},
        "spec": {
            "scaleTargetRef": {"name": "consumer"},
            "pollingInterval": polling,
            "minReplicaCount": 2,
            "maxReplicaCount": PARTITIONS,
            "triggers": [{"type": kind, "metadata": {**group, **metadata}}],
        },
    }
