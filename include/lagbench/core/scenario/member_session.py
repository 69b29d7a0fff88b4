"""Say how long a member that died stays in its consumer group: until its session times out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lagbench.core.scenario.actions import balancers_of

if TYPE_CHECKING:
    from lagbench.core.scenario.scenario import Scenario

CLASSIC_SESSION_SECONDS = 10.0
"""The default of lagbench's own consumer (``--session-timeout-ms``), for the classic protocols."""
BROKERS_SESSION_SECONDS = 45.0
"""Kafka's default of group.consumer.session.timeout.ms, used by the new protocol."""
CLIENTS_SESSION_SECONDS = 45.0
"""Kafka's default of ``session.timeout.ms``: a dead member of other code stays that long."""
LONGEST_SESSION_SECONDS = max(CLASSIC_SESSION_SECONDS, BROKERS_SESSION_SECONDS)
"""The longest session of lagbench's own members."""


def longest_session_seconds(scenario: Scenario) -> float:
    """Return how long a member that died may stay in the group, under each balancer of the run."""
    consumer = scenario.consumer
    if consumer.kind == "own":
        return consumer.session_timeout_seconds
    balancers = balancers_of(consumer.balancer, scenario.actions)
    return BROKERS_SESSION_SECONDS if "consumer" in balancers else CLASSIC_SESSION_SECONDS
