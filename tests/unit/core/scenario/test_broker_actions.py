"""Actions between consumers and broker, and on the downstream: what a scenario may plan."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lagbench.catalog.scenario_errors import wrong_file
from lagbench.core.cluster.action_rights import refuse_on_cluster, refuse_without_own_broker
from lagbench.core.scenario import Scenario, downstream_pace
from lagbench.errors import WrongInput

SLOW = {"kind": "slow_downstream", "at_seconds": 20, "for_seconds": 10, "factor": 3}
CUT = {"kind": "broker_unreachable", "at_seconds": 20, "for_seconds": 10}
RESTART = {"kind": "broker_restart", "at_seconds": 20, "for_seconds": 5}


def scenario(*actions: dict[str, Any], process_ms: float = 2.0) -> Scenario:
    """Return a scenario with these actions; WrongInput as a command shows it."""
    data: dict[str, Any] = {
        "name": "disturbed",
        "description": "one",
        "partitions": 4,
        "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 60},
        "consumer": {"process_ms": process_ms},
        "policy": "lag-quick",
        "actions": list(actions),
    }
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise wrong_file(error, data, where="disturbed.yaml") from error


@pytest.mark.parametrize(
    ("actions", "field", "value"),
    [
        ([SLOW | {"factor": 1}], "actions.0.factor", 1),
        ([SLOW | {"for_seconds": 0}], "actions.0.for_seconds", 0),
        (
            [{"kind": "slow_downstream", "at": "lag_drained", "for_seconds": 5, "factor": 2}],
            "actions.0.at_seconds",
            None,
        ),
        ([SLOW, CUT, SLOW | {"at_seconds": 29}], "actions.2.at_seconds", 29),
        ([CUT | {"mode": "netem"}], "actions.0.mode", "netem"),
        ([CUT | {"mode": "latency"}], "actions.0.latency_ms", None),
        ([CUT | {"latency_ms": 5}], "actions.0.latency_ms", 5),
        ([RESTART | {"for_seconds": -1}], "actions.0.for_seconds", -1),
        ([RESTART, RESTART | {"at_seconds": 16}], "actions.1.at_seconds", 16),
    ],
)
def test_what_cannot_be_played_is_named(
    actions: list[dict[str, Any]], field: str, value: object
) -> None:
    """One message with the field and its value."""
    with pytest.raises(WrongInput) as refused:
        scenario(*actions)

    assert (refused.value.field, refused.value.value) == (field, value)


def test_writes_that_cost_nothing_cannot_be_slow() -> None:
    """A multiple of nothing would be stamped and change nothing."""
    with pytest.raises(WrongInput, check=lambda error: error.field == "actions.0.kind"):
        scenario(SLOW, process_ms=0)


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
