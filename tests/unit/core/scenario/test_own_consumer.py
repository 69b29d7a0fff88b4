"""The settings of a user's own consumer: what they need, and their placeholders."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from tests.fakes.scenario_fields import names

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


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"manifest": None}, "consumer.manifest"),
        ({"accounting": None}, "consumer.accounting"),
        ({"accounting": "ledger"}, "payload"),
        ({"env": {**ENV, "X": "{topics}"}}, "consumer.env.X"),
        ({"env": {**ENV, "TOPIC": "orders"}}, "consumer.env"),
        ({"client_id": "{group}"}, "consumer.client_id"),
        ({"balancer": "range"}, "consumer.balancer"),
        ({"kind": "stand-in"}, "consumer.manifest"),
    ],
)
def test_what_is_missing_or_means_nothing_is_rejected(changed: dict[str, Any], field: str) -> None:
    """Each problem names its field."""
    with pytest.raises(ValidationError, check=names(field)):
        scenario({**OWN, **changed})


def test_an_output_needs_its_topic() -> None:
    """With accounting output the consumer has to learn where to write."""
    with pytest.raises(ValidationError, check=names("consumer.env")):
        scenario({**OWN, "accounting": "output"}, payload={"file": "orders.jsonl"})


def test_poison_and_a_second_group_are_for_lagbenchs_own() -> None:
    """Neither has a meaning for code of others."""
    poison = {"effect": "fail", "key_rank": 1, "from_seconds": 0, "for_seconds": 5}
    with pytest.raises(ValidationError, check=names("poison")):
        scenario(OWN, poison=poison)
    with pytest.raises(ValidationError, check=names("second_group")):
        scenario(OWN, second_group={})


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


@pytest.mark.parametrize("consumer", [OWN, {"kind": "spark"}])
def test_only_a_stand_in_is_moved_to_another_balancer(consumer: dict[str, Any]) -> None:
    """A user's consumer decides its balancer itself, and Spark joins no group."""
    with pytest.raises(ValidationError, check=names("actions.0.balancer")):
        scenario(consumer, actions=[{**RESTART, "balancer": "range"}])


@pytest.mark.parametrize(
    ("consumer", "env", "field"),
    [
        ({"kind": "stand-in"}, {"A": "1"}, "actions.0.env"),
        (OWN, {"TOPIC": "other"}, "actions.0.env.TOPIC"),
        (OWN, {"A": "{topic}"}, "actions.0.env.A"),
        (OWN, {"LAGBENCH_POD": "a"}, "actions.0.env.LAGBENCH_POD"),
        (OWN, {"..a": "a"}, "actions.0.env...a"),
        (OWN, {"1A": "a"}, "actions.0.env.1A"),
    ],
)
def test_a_restart_gives_an_own_consumer_new_variables_only_of_its_own(
    consumer: dict[str, Any], env: dict[str, str], field: str
) -> None:
    """Where the load is, and who the pod is, stays the run's."""
    with pytest.raises(ValidationError, check=names(field)):
        scenario(consumer, actions=[{**RESTART, "env": env}])


def test_new_variables_are_plain_texts() -> None:
    """A doubled brace is one brace, as in consumer.env; a plain variable of it may change."""
    changed = {"LIMITS": '{{"a": 1}}', "MODE": "new"}
    found = scenario({**OWN, "env": {**ENV, "MODE": "old"}}, actions=[{**RESTART, "env": changed}])

    (action,) = found.actions
    assert isinstance(action, RollingRestart)
    assert new_variables(action) == {"LIMITS": '{"a": 1}', "MODE": "new"}
