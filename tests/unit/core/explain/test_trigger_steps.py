"""KEDA's kafka trigger, told step by step."""

from __future__ import annotations

from lagbench.core.explain.explain_lag_scaler import Step
from lagbench.core.explain.trigger_steps import explain_kafka, explain_prometheus
from lagbench.core.keda.loop.source_metrics import PartitionOffsets, read_answer
from lagbench.core.keda.object.scaled_object_spec import MetricType, Trigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger


def trigger(**changes: object) -> KafkaTrigger:
    """Return a trigger with a threshold of 10."""
    return KafkaTrigger.model_validate(
        {"bootstrap_servers": ("k:9092",), "consumer_group": "g", "topic": "t", **changes}
    )


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


def steps(value: str, *, metric_type: MetricType = "AverageValue") -> dict[str, Step]:
    """Return the steps of an answer of one sample, by name."""
    parameters = PrometheusTrigger(
        server_address="http://p:9090", query="sum(lag)", threshold=500, activation_threshold=10
    )
    trigger = Trigger(index=0, type="prometheus", metric_type=metric_type, parameters=parameters)
    body = f'{{"data":{{"result":[{{"value":[1,"{value}"]}}]}}}}'.encode()
    reading = read_answer(parameters, 200, body)
    explained = explain_prometheus(trigger, parameters, reading, min_replicas=2, max_replicas=12)
    return {step.name: step for step in explained}


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
