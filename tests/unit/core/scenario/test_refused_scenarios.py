"""What single fields allow and their combination does not: each is refused by its field."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.scenario_fields import names

from lagbench.core.scenario.scenario import Scenario

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
    (OWN | {"kind": "stand-in"}, "consumer.manifest"),
]
TOGETHER: list[tuple[dict[str, Any], str]] = [
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
]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        *(({"actions": actions}, field) for actions, field in ACTIONS),
        *(({"consumer": consumer}, field) for consumer, field in CONSUMERS),
        *TOGETHER,
    ],
)
def test_it_is_refused_by_its_field(fields: dict[str, Any], field: str) -> None:
    """The first problem is the one that is named."""
    with pytest.raises(ValidationError, check=names(field)):
        Scenario.model_validate(SCENARIO | fields)


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
