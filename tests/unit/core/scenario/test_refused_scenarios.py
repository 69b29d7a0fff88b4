"""What single fields allow and their combination does not: each is refused by its field."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lagbench.catalog.scenario_errors import wrong_file
from lagbench.core.scenario.actions import RollingRestart
from lagbench.core.scenario.consumer_kinds import (
    BATCH_OVERHEAD_SECONDS,
    KINDS,
    LEVELS,
    batch_seconds,
    level_of,
    published_lag_seconds,
)
from lagbench.core.scenario.own_consumer import client_pattern, new_variables
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.scenario.slo_limits import Slos

SCENARIO: dict[str, Any] = {
    "name": "one",
    "description": "one",
    "partitions": 6,
    "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 60},
    "policy": "lag-quick",
}

ENV = {"KAFKA": "{bootstrap_servers}", "TOPIC": "{topic}", "GROUP": "{group}"}
OWN: dict[str, Any] = {"kind": "own", "manifest": "x.yaml", "accounting": "commits", "env": ENV}
SPARK = {"kind": "spark"}
PAYLOAD, KEYED = {"file": "x"}, {"file": "x", "key_field": "id"}
POISON = {"effect": "fail", "key_rank": 1, "from_seconds": 0, "for_seconds": 5}
KILL: dict[str, Any] = {"kind": "kill_pod", "at_seconds": 1}
SLOW = {"kind": "slow_downstream", "at_seconds": 20, "for_seconds": 10, "factor": 3}
CUT: dict[str, Any] = {"kind": "broker_unreachable", "at_seconds": 20, "for_seconds": 10}
OUTAGE = {"kind": "broker_restart", "at_seconds": 20, "for_seconds": 5}
RESTART: dict[str, Any] = {"kind": "rolling_restart", "at_seconds": 1}
GROWTH = {"kind": "grow_partitions", "at_seconds": 5, "partitions": 8}


def at_drained(action: dict[str, Any]) -> dict[str, Any]:
    """Return an action that begins in a state instead."""
    return {name: value for name, value in action.items() if name != "at_seconds"} | {
        "at": "lag_drained"
    }


ABORTS: list[tuple[dict[str, Any], str]] = [
    ({}, "abort"),
    ({"lag_records": 0}, "abort.lag_records"),
    ({"disk_free": 1}, "abort.disk_free"),
    ({"observer_starved_seconds": 1}, "abort.observer_starved_seconds"),
    ({"observer_starved_seconds": 5}, "abort.observer_starved_seconds"),  # OUTAGE lasts as long
]

ACTIONS: list[tuple[Any, str]] = [
    (3, "actions"),
    ([{"at_seconds": 3}], "actions.0"),
    ([{"kind": "kill_pod"}], "actions.0.at_seconds"),
    ([KILL | {"at": "lag_drained"}], "actions.0.at_seconds"),
    ([KILL, KILL | {"kind": "stop_pod"}], "actions.1.kind"),
    ([KILL | {"at_seconds": -1}], "actions.0.at_seconds"),
    ([KILL | {"pod": "x"}], "actions.0.pod"),
    ([{"kind": "pause_pod", "at_seconds": 1}], "actions.0.for_seconds"),
    ([{"kind": "kill_pod", "at": "tomorrow"}], "actions.0.at"),
    ([SLOW | {"factor": 1}], "actions.0.factor"),
    ([SLOW | {"for_seconds": 0}], "actions.0.for_seconds"),
    ([at_drained(SLOW)], "actions.0.at_seconds"),
    ([SLOW, CUT, SLOW | {"at_seconds": 29}], "actions.2.at_seconds"),
    ([CUT | {"mode": "netem"}], "actions.0.mode"),
    ([CUT | {"mode": "latency"}], "actions.0.latency_ms"),
    ([CUT | {"latency_ms": 5}], "actions.0.latency_ms"),
    ([OUTAGE | {"for_seconds": -1}], "actions.0.for_seconds"),
    ([OUTAGE, OUTAGE | {"at_seconds": 16}], "actions.1.at_seconds"),
    ([GROWTH | {"partitions": 6}], "actions.0.partitions"),
    ([GROWTH | {"partitions": 1001}], "actions.0.partitions"),
    ([GROWTH, GROWTH | {"at_seconds": 6}], "actions.1.partitions"),
    ([GROWTH, GROWTH | {"at_seconds": 4, "partitions": 9}], "actions.0.partitions"),
    ([GROWTH, GROWTH | {"partitions": 9}], "actions.1.at_seconds"),
    ([at_drained(GROWTH)], "actions.0.at_seconds"),
    ([{"kind": "grow_partitions", "at_seconds": 40}], "actions.0.partitions"),
]

CONSUMERS: list[tuple[dict[str, Any], str]] = [
    (SPARK | {"balancer": "range"}, "consumer.balancer"),
    (SPARK | {"commit": "auto"}, "consumer.commit"),
    (SPARK | {"workload": "StatefulSet"}, "consumer.workload"),
    (SPARK | {"graceful_shutdown": False}, "consumer.graceful_shutdown"),
    ({"spark": {"trigger_seconds": 1}}, "consumer.spark"),
    (SPARK | {"concurrency": 3, "spark": {"cores_per_worker": 2}}, "consumer.concurrency"),
    (
        SPARK | {"spark": {"worker_memory_mebibytes": 200}},
        "consumer.spark.worker_memory_mebibytes",
    ),
    (OWN | {"manifest": None}, "consumer.manifest"),
    (OWN | {"accounting": None}, "consumer.accounting"),
    (OWN | {"accounting": "ledger"}, "payload"),
    (OWN | {"env": ENV | {"X": "{topics}"}}, "consumer.env.X"),
    (OWN | {"env": ENV | {"TOPIC": "orders"}}, "consumer.env"),
    (OWN | {"client_id": "{group}"}, "consumer.client_id"),
    (OWN | {"balancer": "range"}, "consumer.balancer"),
    (OWN | {"work": "waited"}, "consumer.work"),
    (SPARK | {"work": "waited"}, "consumer.work"),
    ({"work": "slept"}, "consumer.work"),
    ({"work": "waited", "process_ms": 0, "cpu_ms": 1}, "consumer.process_ms"),
    (OWN | {"kind": "stand-in"}, "consumer.manifest"),
]

STEP = {
    "kind": "step",
    "rate_per_second": 10,
    "spike_mult": 0.5,
    "before_seconds": 1,
    "spike_hold_seconds": 1,
    "after_seconds": 1,
}
TOGETHER: list[tuple[dict[str, Any], str]] = [
    ({"profile": STEP}, "profile.spike_mult"),
    ({"consumer": {"process_ms": 0}, "actions": [SLOW]}, "actions.0.kind"),
    ({"consumer": {"cpu_ms": 1}, "actions": [SLOW]}, "actions.0.kind"),
    ({"consumer": SPARK, "actions": [CUT]}, "actions.0.kind"),
    ({"consumer": SPARK, "actions": [RESTART | {"balancer": "range"}]}, "actions.0.balancer"),
    ({"consumer": OWN, "actions": [RESTART | {"balancer": "range"}]}, "actions.0.balancer"),
    (
        {"consumer": {"workload": "StatefulSet"}, "actions": [RESTART | {"at_once": True}]},
        "actions.0.at_once",
    ),
    ({"actions": [RESTART | {"env": {"A": "1"}}]}, "actions.0.env"),
    *(
        ({"consumer": OWN, "actions": [RESTART | {"env": {name: text}}]}, f"actions.0.env.{name}")
        for name, text in (
            ("TOPIC", "other"),
            ("A", "{topic}"),
            ("LAGBENCH_POD", "a"),
            ("..a", "a"),
            ("1A", "a"),
        )
    ),
    ({"consumer": OWN | {"accounting": "output"}, "payload": PAYLOAD}, "consumer.env"),
    ({"consumer": OWN, "poison": POISON}, "poison"),
    ({"consumer": OWN, "second_group": {}}, "second_group"),
    ({"consumer": SPARK, "second_group": {}}, "second_group"),
    ({"consumer": SPARK, "payload": PAYLOAD}, "payload"),
    ({"payload": KEYED, "poison": POISON}, "poison"),
    ({"payload": KEYED, "actions": [GROWTH]}, "actions.0.kind"),
    ({"poison": POISON, "keys": {"entities": 1}, "payload": KEYED}, "poison"),
    ({"second_group": {"consumer": {"balancer": "rnage"}}}, "second_group.consumer.balancer"),
    ({"second_group": {"consumer": {"proces_ms": 2}}}, "second_group.consumer.proces_ms"),
    ({"second_group": {"keys": {}}}, "second_group.keys"),
    ({"second_group": 3}, "second_group"),
    (
        {"second_group": {"consumer": {"work": "waited", "process_ms": 0}}},
        "second_group.consumer.process_ms",
    ),
]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *(({"actions": actions}, field) for actions, field in ACTIONS),
        *(({"consumer": consumer}, field) for consumer, field in CONSUMERS),
        *(({"abort": abort, "actions": [OUTAGE]}, field) for abort, field in ABORTS),
        *TOGETHER,
    ],
)
def test_it_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    """The first problem is the one that is named."""
    with pytest.raises(ValidationError) as refused:
        Scenario.model_validate(SCENARIO | fields)

    assert wrong_file(refused.value, {}, where="a scenario").field == field


@pytest.mark.parametrize(
    "fields",
    [
        {"payload": PAYLOAD, "poison": POISON},
        {"payload": PAYLOAD, "actions": [GROWTH]},
        {"actions": [RESTART | {"at_once": True, "balancer": "range"}]},
        {"actions": [GROWTH, GROWTH | {"at_seconds": 6, "partitions": 9}]},
    ],
)
def test_what_fits_together_is_taken(fields: dict[str, Any]) -> None:
    """Beside the refusals above."""
    assert Scenario.model_validate(SCENARIO | fields)


def test_the_tables_name_fields_that_are_there() -> None:
    """SLOs that are not asked or judged, and settings that are not taken, have these names."""
    slos, settings = set(Slos.model_fields), set(ConsumerSettings.model_fields)
    for kind in KINDS.values():
        assert set(kind.not_asked) <= slos
        assert set(kind.not_taken) <= settings
    for level in LEVELS.values():
        assert set(level.cannot_judge) <= slos
        limits = Slos.model_validate(level.default_limits())
        assert not any(getattr(limits, name) for name in level.cannot_judge)


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


def test_the_sentence_names_what_is_missing() -> None:
    """It leaves out what can be judged, and what the user asked for."""
    level = level_of("output")

    said = level.judged_without(["lost", "zombies", "failed"], but={"failed"})

    assert "zombies" in said
    assert not {"lost", "failed"} & {*re.findall(r"\w+", said)}
    assert level.judged_without(["lost"]) == ""


def scenario(consumer: dict[str, Any], **fields: Any) -> Scenario:
    """Return a checked scenario."""
    return Scenario.model_validate({**SCENARIO, "consumer": consumer, **fields})


def test_the_default_limits_are_those_of_the_level_also_when_it_is_read_again() -> None:
    """The run folder's scenario has the same limits, and the user's own stay."""
    found = scenario(OWN, slos={"lost": 0, "drain_seconds": 60})

    assert (found.slos.lost, found.slos.duplicated, found.slos.flips) == (0, None, 0)
    written = yaml.safe_dump(found.model_dump(mode="json"))
    assert Scenario.model_validate(yaml.safe_load(written)) == found


def test_a_client_id_names_its_pod() -> None:
    """What stands around the pod's name must be there; only a whole id matches."""
    pattern = client_pattern("orders-{pod}.0", "consumer-[a-z0-9-]+")

    found = pattern.fullmatch("orders-consumer-7d-x2.0")
    assert found is not None
    assert found["pod"] == "consumer-7d-x2"
    assert pattern.fullmatch("orders-consumer-7d-x2x0") is None


def test_new_variables_are_plain_texts() -> None:
    """A doubled brace is one brace, as in consumer.env; a plain variable of it may change."""
    changed = {"LIMITS": '{{"a": 1}}', "MODE": "new"}
    found = scenario({**OWN, "env": {**ENV, "MODE": "old"}}, actions=[{**RESTART, "env": changed}])

    (action,) = found.actions
    assert isinstance(action, RollingRestart)
    assert new_variables(action) == {"LIMITS": '{"a": 1}', "MODE": "new"}
