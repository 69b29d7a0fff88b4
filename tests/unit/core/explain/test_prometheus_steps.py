"""KEDA's prometheus trigger, told step by step."""

from __future__ import annotations

from lagbench.core.explain.lag_scaler import Step
from lagbench.core.explain.trigger_steps import explain_prometheus
from lagbench.core.keda.loop.prometheus_answer import read_answer
from lagbench.core.keda.object.spec import MetricType, Trigger
from lagbench.core.keda.triggers.prometheus import PrometheusTrigger


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
