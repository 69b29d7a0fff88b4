"""Actions between consumers and broker, and on the downstream: what a scenario may plan."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.cluster.action_rights import refuse_on_cluster, refuse_without_own_broker
from lagbench.core.scenario.actions import downstream_pace
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput

SLOW = {"kind": "slow_downstream", "at_seconds": 20, "for_seconds": 10, "factor": 3}
CUT = {"kind": "broker_unreachable", "at_seconds": 20, "for_seconds": 10}
RESTART = {"kind": "broker_restart", "at_seconds": 20, "for_seconds": 5}


def scenario(*actions: dict[str, Any]) -> Scenario:
    """Return a scenario with these actions."""
    data: dict[str, Any] = {
        "name": "disturbed",
        "description": "one",
        "partitions": 4,
        "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 60},
        "policy": "lag-quick",
        "actions": list(actions),
    }
    return Scenario.model_validate(data)


def test_the_consumers_pace_is_that_of_the_actions() -> None:
    """Slowdowns that touch are two, and other actions change no pace."""
    found = scenario(SLOW, CUT, SLOW | {"at_seconds": 30, "factor": 2})

    assert downstream_pace(found.actions).rows == [(20, 30, 3), (30, 40, 2)]
    assert downstream_pace(scenario(CUT).actions).is_even


@pytest.mark.parametrize("action", [CUT, RESTART])
def test_only_the_embedded_broker_is_disturbed(action: dict[str, Any]) -> None:
    """On a cluster, and with a Kafka of others, the kind is refused by name."""
    found = scenario(SLOW, action)

    for refuse in (refuse_on_cluster, refuse_without_own_broker):
        with pytest.raises(WrongInput) as refused:
            refuse(found)
        assert (refused.value.field, refused.value.value) == ("actions.1.kind", action["kind"])


def test_a_slow_downstream_is_played_anywhere() -> None:
    """The consumers play it themselves: no right is needed."""
    refuse_on_cluster(scenario(SLOW))
    refuse_without_own_broker(scenario(SLOW))
