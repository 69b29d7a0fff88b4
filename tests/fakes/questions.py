"""Small questions to the advisor: a short spike on four partitions, a few candidates, two draws."""

from __future__ import annotations

from typing import Any

from lagbench.core.advice.model import AskedSlo
from lagbench.core.advice.question import Question
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.profiles import StepProfile
from lagbench.core.scenario.scenario import ConsumerSettings, Keys, Scenario, Timeouts
from lagbench.core.simulation.model_error import ModelError
from lagbench.core.simulation.simulated_world import SimulatedEnvironment

SPIKE = Scenario(
    name="short",
    description="a spike of 20 s",
    partitions=4,
    keys=Keys(entities=1000, zipf_s=0),
    profile=StepProfile(
        kind="step",
        rate_per_second=200,
        spike_mult=4,
        before_seconds=10,
        spike_hold_seconds=20,
        after_seconds=5,
    ),
    consumer=ConsumerSettings(process_ms=4.0, concurrency=1),
    policy="lag",
    timeouts=Timeouts(drain_seconds=60, settle_seconds=60),
)
MARGIN = 3.0
"""Seconds that each residual is above the simulation."""
P99, DRAIN, REACTION = "time_lag_p99_seconds", "drain_seconds", "reaction_seconds"
PRESENT = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "orders", "namespace": "shop", "labels": {"team": "a"}},
    "spec": {
        "scaleTargetRef": {"name": "orders"},
        "pollingInterval": 20,
        "minReplicaCount": 1,
        "maxReplicaCount": 4,
        "triggers": [
            {
                "type": "kafka",
                "metadata": {
                    "bootstrapServers": "broker:9092",
                    "topic": "orders",
                    "consumerGroup": "billing",
                    "lagThreshold": "500",
                },
                "authenticationRef": {"name": "login"},
            }
        ],
    },
}


def scenario(**changes: Any) -> Scenario:
    """Return the short spike with other fields."""
    return Scenario.model_validate(SPIKE.model_dump() | changes)


def question(
    *scenarios: Scenario, slos: dict[str, float] | None = None, **changes: Any
) -> Question:
    """Return a question with the present policy; every SLO has residuals of ``MARGIN``."""
    asked = {P99: 20.0} if slos is None else slos
    error = ModelError(20, False, MARGIN, MARGIN, MARGIN, 0.0, MARGIN)
    given: dict[str, Any] = {
        "present": Policy.load(PRESENT, where="present"),
        "environment": SimulatedEnvironment(tail_seconds=120.0),
        "budget": 12,
        "draws": (1, 2),
        "errors": dict.fromkeys([*asked, P99], error),
    }
    return Question(
        scenarios or (SPIKE,),
        [AskedSlo(name=name, limit=limit) for name, limit in asked.items()],
        **given | changes,
    )
