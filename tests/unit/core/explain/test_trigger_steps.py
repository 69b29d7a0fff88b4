"""KEDA's kafka trigger, told step by step."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.fakes.lag_samples import at, judged, lags, offsets, rule
from tests.fakes.policies import LAG_SCALER, behavior, kafka, scaled_object

from lag_scaler.explain import Step, explain
from lag_scaler.rule import Decision
from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.keda.loop.source_metrics import PartitionOffsets, read_answer
from lagbench.core.keda.object.scaled_object_spec import MetricType, Trigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.policy.explained_steps import (
    explain_kafka,
    explain_prometheus,
    explain_sampled,
    version_notes,
)
from lagbench.core.policy.policy import Policy

PUSH = {**LAG_SCALER, "type": "external-push"}
PUSH["metadata"] = {**LAG_SCALER["metadata"], "syncOnStep": "true"}  # type: ignore[dict-item]


def trigger(**changes: object) -> KafkaTrigger:
    """Return a trigger with a threshold of 10."""
    return KafkaTrigger.model_validate(
        {"bootstrap_servers": ("k:9092",), "consumer_group": "g", "topic": "t", **changes}
    )


@pytest.mark.parametrize(
    ("version", "advanced", "triggers", "since"),
    [
        (None, behavior(scaleUp={"tolerance": "0.05"}), [kafka()], ["1.35"]),
        ("1.34", behavior(scaleUp={"tolerance": "0.05"}), [kafka()], []),
        (None, None, [PUSH], ["1.37"]),
        (None, None, [kafka()], []),
    ],
)
def test_what_depends_on_the_version_is_said(
    version: str | None, advanced: Any, triggers: list[Any], since: list[str]
) -> None:
    """A tolerance of the object, and a sync at each step of a push."""
    annotations = {} if version is None else {KUBERNETES_ANNOTATION: version}
    asked = scaled_object(annotations, advanced=advanced, triggers=triggers)
    notes = version_notes(Policy.read(asked, where="f"))

    assert [re.findall(r"Kubernetes ([\d.]+)", note)[0] for note in notes] == since


def test_the_replica_too_many_of_kedas_cap_is_shown() -> None:
    """Lag 39 on 3 partitions passes the cap of 30, because 39 // 10 is 3: four replicas."""
    offsets = {("t", number): PartitionOffsets(113, 100) for number in range(3)}

    explained = explain_kafka(trigger(), offsets, min_replicas=1, max_replicas=10)

    assert [(line.partition, line.lag) for line in explained.partitions] == [
        (0, 13),
        (1, 13),
        (2, 13),
    ]
    by_name = {step.name: step for step in explained.steps}
    assert "39 // 10 = 3" in by_name["cap"].rule
    assert "39" in by_name["cap"].result
    assert "4" in by_name["replicas"].result
    assert "3" in by_name["replicas"].rule


def test_a_partition_without_a_commit_says_by_which_rule_it_counts() -> None:
    """With latest it counts 1, with scaleToZeroOnInvalidOffset 0."""
    offsets = {("t", 0): PartitionOffsets(1_000, None)}

    latest = explain_kafka(trigger(), offsets, min_replicas=0, max_replicas=10)
    zero = explain_kafka(
        trigger(scale_to_zero_on_invalid_offset=True), offsets, min_replicas=0, max_replicas=10
    )

    assert (latest.partitions[0].lag, zero.partitions[0].lag) == (1, 0)
    assert "latest" in latest.partitions[0].rule
    assert [step.result for step in zero.steps if step.name == "activity"] == ["not active"]


def test_a_target_of_the_group_multiplies_the_ready_pods() -> None:
    """With metricType Value 39 against 10 is a ratio, not four replicas."""
    offsets = {("t", number): PartitionOffsets(113, 100) for number in range(3)}

    explained = explain_kafka(
        trigger(), offsets, min_replicas=1, max_replicas=10, metric_type="Value"
    )

    step = explained.steps[-1]
    assert (step.name, step.result[:4]) == ("replicas", "3.90")
    assert not explained.cause


@pytest.mark.parametrize(
    ("lag", "most", "cause"),
    [
        (13, 10, "lag 13 requests 2 pods"),
        (25, 1, "lag 25 requests 3 pods; limited to 1 by the policy's maximum"),
        (0, 10, "lag 0 requests 0 pods; raised to 1 by the policy's minimum"),
        (90, 10, "lag 90, of which 30 count, requests 3 pods"),
    ],
)
def test_a_poll_has_its_cause_in_one_text(lag: int, most: int, cause: str) -> None:
    """The whole lag, what the cap leaves of it, and what the policy's bounds leave of that."""
    found = {("t", number): PartitionOffsets(100 + lag * (number == 0), 100) for number in range(3)}
    assert explain_kafka(trigger(), found, min_replicas=1, max_replicas=most).cause == cause


def steps(value: str, *, metric_type: MetricType = "AverageValue") -> dict[str, Step]:
    """Return the steps of an answer of one sample, by name."""
    parameters = PrometheusTrigger(
        server_address="http://p:9090", query="sum(lag)", threshold=500, activation_threshold=10
    )
    trigger = Trigger(index=0, type="prometheus", metric_type=metric_type, parameters=parameters)
    body = f'{{"data":{{"result":[{{"value":[1,"{value}"]}}]}}}}'.encode()
    reading = read_answer(parameters, 200, body)
    explained = explain_prometheus(trigger, parameters, reading, min_replicas=2, max_replicas=12)
    return {step.name: step for step in explained.steps}


def test_replicas_are_the_value_by_the_threshold() -> None:
    """1,200 at 500 each are three replicas."""
    explained = steps("1200")

    assert explained["query"].result == "1200"
    assert explained["activity"].result == "active"
    assert explained["replicas"].seen == "1200 / 500 per replica = 2.40"
    assert explained["replicas"].result == "3 wanted"


def test_a_negative_value_is_served_as_nothing() -> None:
    """It is not active, and the floor is wanted."""
    explained = steps("-3")

    assert (explained["metric"].result, explained["activity"].result) == ("metric 0", "not active")
    assert explained["replicas"].result == "2 wanted"


def test_a_value_target_is_of_the_group() -> None:
    """How many replicas that are depends on the Ready pods."""
    assert steps("1000", metric_type="Value")["replicas"].result.startswith("2.00 ")


def explained(decision: Decision, seconds: float) -> dict[str, str]:
    """Return each step's text by its name."""
    return {
        step.name: f"{step.seen} | {step.rule} | {step.result}"
        for step in explain(decision, at(seconds))
    }


def test_the_steps_lead_from_the_sample_to_the_answer() -> None:
    """600 records on partition 1 of 2 for 20 s."""
    steps = explained(judged([lags(2 * number, 0, 600) for number in range(11)]), 21)

    assert list(steps) == [
        "sample", "lag", "stretch", "persistence", "metric", "cap", "stabilization", "activity",
    ]  # fmt: skip
    numbers = {name: re.findall(r"\d+\.\d|\d+", text) for name, text in steps.items()}
    assert {"1.0", "11"} <= {*numbers["sample"]}
    assert {"600", "1", "2"} <= {*numbers["lag"]}
    assert {"1", "20.0"} <= {*numbers["stretch"]}
    assert steps["persistence"].endswith("| persistent")
    assert "2" in numbers["cap"]
    assert steps["activity"].endswith("| active")


def test_the_cause_of_the_lag_scaler_is_lag_and_persistence() -> None:
    """Its last steps say how many replicas the metric requests."""
    steps = explain(judged([lags(2 * number, 0, 600) for number in range(11)]), at(21))
    assert explain_sampled(steps).cause.startswith("600 records counted, persistent: metric 600, ")


def test_lag_that_does_not_persist_yet_says_how_long_it_lasts() -> None:
    """10 s of 20 s."""
    steps = explained(judged([lags(2 * number, 600) for number in range(6)]), 10)

    assert "10.0 s" in steps["persistence"]
    assert steps["persistence"].endswith("not persistent")
    assert steps["metric"].endswith("| 0")


def test_a_stale_sample_is_reported() -> None:
    """Older than 2.5 intervals."""
    assert explained(judged([lags(0, 600)]), 6)["sample"].split("| ")[-1].startswith("stale")


def test_options_are_reported_where_they_act() -> None:
    """Without a commit, limited, even, held: each step names its option."""
    chosen = rule(
        sustain_seconds=0,
        partition_limitation=(0, 1),
        ensure_even_distribution_of_partitions=True,
        exclude_persistent_lag=True,
        scale_down_stabilization_seconds=60,
    )
    samples = [offsets(0, [5000, 7], [4000, -1]), offsets(2, [5000, 7], [5000, -1])]
    steps = explained(judged(samples, chosen), 2)

    assert "commit" in steps["lag"]
    assert "divisor" in steps["cap"]
    assert "1000 (held)" in steps["stabilization"]


def test_ages_and_rates_are_reported() -> None:
    """LagMetric seconds tells an age, projected the growth."""
    aged = rule(lag_metric="seconds", lag_threshold=10)
    old = judged([offsets(2 * n, [10_000 + n], [5]) for n in range(8)], aged)
    grown = rule(lag_metric="projected")
    growing = judged([lags(2 * number, 600 * number) for number in range(9)], grown)

    assert "14.0 s" in explained(old, 14)["lag"]
    assert "+300.0/s" in explained(growing, 16)["projection"]
