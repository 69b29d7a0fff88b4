"""The kinds of consumers: what each takes, and the saw of Spark's published lag."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml

from lagbench.core.scenario.actions import RollingRestart
from lagbench.core.scenario.consumer_kinds import (
    BATCH_OVERHEAD_SECONDS,
    KINDS,
    LEVELS,
    AccountingLevel,
    batch_seconds,
    level_of,
    published_lag_seconds,
)
from lagbench.core.scenario.own_consumer import client_pattern, filled_in, new_variables
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario, Slos

SCENARIO: dict[str, Any] = {
    "name": "one",
    "description": "one",
    "partitions": 6,
    "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 10},
    "policy": "lag-spark",
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_the_table_names_fields_that_are_there(kind: Any) -> None:
    """SLOs that are not asked and settings that are not taken exist under these names."""
    assert set(kind.not_asked) <= set(Slos.model_fields)
    assert set(kind.not_taken) <= set(ConsumerSettings.model_fields)


def test_a_batch_takes_its_overhead_and_its_share_of_the_capacity() -> None:
    """Below the trigger a batch has a trigger's traffic; above it, that of the batch before."""
    assert batch_seconds(2, 500, 1000) == pytest.approx(BATCH_OVERHEAD_SECONDS + 1)
    assert batch_seconds(0.5, 500, 1000) == pytest.approx(BATCH_OVERHEAD_SECONDS / 0.5)
    assert math.isinf(batch_seconds(2, 1000, 1000))


def test_published_lag_is_a_saw_of_batch_and_interval() -> None:
    """At the top of the saw the group shows the end of the batch before the one that ends."""
    seconds = published_lag_seconds(2, 500, 1000)

    assert seconds == pytest.approx(BATCH_OVERHEAD_SECONDS + 1 + 2)
    settings = ConsumerSettings.model_validate({"kind": "spark", "process_ms": 2})
    assert settings.lag_at_rest_seconds(500, 2) == seconds
    assert ConsumerSettings().lag_at_rest_seconds(500, 2) == 1.0


OF_WORK = {"lost", "duplicated", "reordered", "time_lag_p95_seconds", "standstill_seconds"}


@pytest.mark.parametrize("level", LEVELS.values(), ids=list(LEVELS))
def test_a_level_names_slos_that_are_there(level: AccountingLevel) -> None:
    """What a level cannot judge is a field of the SLOs, and its default limit is none."""
    assert set(level.cannot_judge) <= set(Slos.model_fields)
    limits = Slos.model_validate(level.default_limits())
    assert not any(getattr(limits, name) for name in level.cannot_judge)


def test_a_limit_of_the_user_stays() -> None:
    """The user's own limit is kept, so that the verdict can say that it cannot be judged."""
    limits = level_of("commits").with_default_limits({"lost": 0})

    assert limits["lost"] == 0
    assert limits["duplicated"] is None


def test_the_sentence_names_what_is_missing() -> None:
    """It leaves out what can be judged, and what the user asked for."""
    level = level_of("output")

    said = level.judged_without(["lost", "zombies", "failed"], but={"failed"})

    assert "zombies" in said
    assert not {"lost", "failed"} & {*re.findall(r"\w+", said)}
    assert level.judged_without(["lost"]) == ""


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
