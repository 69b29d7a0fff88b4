"""Name the parts of a scenario that the simulator does not play."""

from __future__ import annotations

from collections.abc import Iterator

from lagbench.core.scenario import Scenario
from lagbench.core.simulation.simulated_actions import is_simulated


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
