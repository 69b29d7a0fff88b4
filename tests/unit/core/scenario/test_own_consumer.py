"""The settings of a user's own consumer: what they need, and their placeholders."""

from __future__ import annotations

from typing import Any

import yaml

from lagbench.core.scenario.actions import RollingRestart
from lagbench.core.scenario.own_consumer import client_pattern, filled_in, new_variables
from lagbench.core.scenario.scenario import Scenario

ENV = {"KAFKA": "{bootstrap_servers}", "TOPIC": "{topic}", "GROUP": "{group}"}
OWN: dict[str, Any] = {"kind": "own", "manifest": "x.yaml", "accounting": "commits", "env": ENV}


def scenario(consumer: dict[str, Any], **fields: Any) -> Scenario:
    """Return a checked scenario."""
    return Scenario.model_validate(
        {
            "name": "one",
            "description": "one",
            "partitions": 6,
            "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 10},
            "policy": "lag-quick",
            "consumer": consumer,
            **fields,
        }
    )


def test_the_default_limits_are_those_of_the_level_also_when_it_is_read_again() -> None:
    """The run folder's scenario has the same limits, and the user's own stay."""
    found = scenario(OWN, slos={"lost": 0, "drain_seconds": 60})

    assert (found.slos.lost, found.slos.duplicated, found.slos.flips) == (0, None, 0)
    written = yaml.safe_dump(found.model_dump(mode="json"))
    assert Scenario.model_validate(yaml.safe_load(written)) == found


def test_placeholders_are_filled_in_and_doubled_braces_stay() -> None:
    """A JSON text can be an argument."""
    text = '{{"topic": "{topic}"}}'

    assert filled_in(text, {"topic": "orders"}) == '{"topic": "orders"}'


def test_a_client_id_names_its_pod() -> None:
    """What stands around the pod's name must be there; only a whole id matches."""
    pattern = client_pattern("orders-{pod}.0", "consumer-[a-z0-9-]+")

    found = pattern.fullmatch("orders-consumer-7d-x2.0")
    assert found is not None
    assert found["pod"] == "consumer-7d-x2"
    assert pattern.fullmatch("orders-consumer-7d-x2x0") is None


RESTART: dict[str, Any] = {"kind": "rolling_restart", "at_seconds": 1}


def test_new_variables_are_plain_texts() -> None:
    """A doubled brace is one brace, as in consumer.env; a plain variable of it may change."""
    changed = {"LIMITS": '{{"a": 1}}', "MODE": "new"}
    found = scenario({**OWN, "env": {**ENV, "MODE": "old"}}, actions=[{**RESTART, "env": changed}])

    (action,) = found.actions
    assert isinstance(action, RollingRestart)
    assert new_variables(action) == {"LIMITS": '{"a": 1}', "MODE": "new"}
