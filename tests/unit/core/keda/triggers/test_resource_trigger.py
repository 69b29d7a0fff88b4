"""The cpu and memory triggers: what KEDA hands on to the HPA, and what it rejects."""

import pytest

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.resource import parse_resource_trigger
from lagbench.errors import WrongInput


def test_a_utilization_is_a_percentage_of_the_request() -> None:
    """The value is read as a whole percentage."""
    trigger = parse_resource_trigger("cpu", {"value": "50"}, metric_type="Utilization")

    assert (trigger.target_type, trigger.target_percent) == ("Utilization", 50)
    assert trigger.target_milli is None
    assert trigger.metric_name(3) == "cpu"


def test_an_average_value_is_a_quantity_per_pod() -> None:
    """The value is a Kubernetes quantity; a container can be named."""
    metadata = {"value": "1.5Gi", "containerName": "app"}

    trigger = parse_resource_trigger("memory", metadata, metric_type="AverageValue")

    assert trigger.target_type == "AverageValue"
    assert trigger.target_milli == 1_610_612_736_000
    assert (trigger.target_percent, trigger.container_name) == (None, "app")


@pytest.mark.parametrize(
    ("metadata", "metric_type"),
    [
        ({"value": "5.5"}, "Utilization"),
        ({"value": "3000000000"}, "Utilization"),
        ({}, "Utilization"),
        ({"value": "5"}, "Value"),
        ({"value": "5", "type": "Utilization"}, "Utilization"),
    ],
)
def test_what_keda_refuses(metadata: dict[str, str], metric_type: str) -> None:
    """The reason is KEDA's and names the resource."""
    with pytest.raises(TriggerRefused, check=lambda error: "memory" in error.keda_message):
        parse_resource_trigger("memory", metadata, metric_type=metric_type)


def test_a_text_that_is_no_quantity() -> None:
    """KEDA panics on it; here it is named."""
    with pytest.raises(WrongInput, check=lambda error: error.value == "lots"):
        parse_resource_trigger("cpu", {"value": "lots"}, metric_type="AverageValue")
