"""The HPA of several triggers: order, composite, held-back directions and labels."""

from typing import Any

import pytest

from lagbench.core.hpa.spec import parse_hpa
from lagbench.core.keda.loop.hpa_builder import build_hpa
from lagbench.core.keda.loop.metric_specs import trigger_metric_spec
from lagbench.core.keda.loop.scaler import MetricSpec
from lagbench.core.keda.object.scaled_object import parse_scaled_object

KAFKA = {
    "type": "kafka",
    "name": "lag",
    "metadata": {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"},
}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}
MEMORY_OF_ONE = {
    "type": "memory",
    "metricType": "AverageValue",
    "metadata": {"value": "1Gi", "containerName": "app"},
}
EXTERNAL = {"type": "external", "metadata": {"scalerAddress": "s:6000"}}


def hpa_of(
    triggers: list[dict[str, Any]],
    *more: MetricSpec,
    advanced: dict[str, Any] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return the HPA of an object with these triggers, ``more`` metrics and metadata."""
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n", "uid": "u", **metadata},
        "spec": {
            "scaleTargetRef": {"name": "w"},
            "triggers": triggers,
            "advanced": advanced or {},
        },
    }
    spec = parse_scaled_object(manifest, where="f")
    known = [trigger_metric_spec(trigger) for trigger in spec.triggers]
    specs = [*(item for item in known if item is not None), *more]
    return build_hpa(spec, manifest["metadata"], specs)


def test_metrics_are_sorted_by_type() -> None:
    """Container metrics come before external ones, and those before resources."""
    hpa = hpa_of([CPU, KAFKA, MEMORY_OF_ONE])

    assert [metric["type"] for metric in hpa["spec"]["metrics"]] == [
        "ContainerResource",
        "External",
        "Resource",
    ]
    container, external, resource = hpa["spec"]["metrics"]
    assert container["containerResource"] == {
        "name": "memory",
        "container": "app",
        "target": {"type": "AverageValue", "averageValue": "1073741824"},
    }
    assert external["external"]["metric"]["name"] == "s1-kafka-t"
    assert resource["resource"]["target"] == {"type": "Utilization", "averageUtilization": 60}


def test_a_composite_takes_the_place_of_external_metrics() -> None:
    """Resources stay before it; container metrics are lost, as in KEDA."""
    modifiers = {"formula": "lag * 2", "target": "2.5", "metricType": "Value"}

    hpa = hpa_of([KAFKA, CPU, MEMORY_OF_ONE], advanced={"scalingModifiers": modifiers})

    resource, composite = hpa["spec"]["metrics"]
    assert resource["resource"]["name"] == "cpu"
    assert composite["external"] == {
        "metric": {
            "name": "composite-metric",
            "selector": {"matchLabels": {"scaledobject.keda.sh/name": "w"}},
        },
        "target": {"type": "Value", "value": "2500m"},
    }


def test_metrics_of_an_external_server_are_taken_as_they_are() -> None:
    """What the server told is on the HPA; the trigger alone knows no metric."""
    reported = MetricSpec(
        name="s0-persistent_lag",
        kind="External",
        target_type="AverageValue",
        target_milli=1500,
    )

    hpa = hpa_of([EXTERNAL], reported)

    external = hpa["spec"]["metrics"][0]["external"]
    assert external["metric"]["name"] == "s0-persistent_lag"
    assert external["target"] == {"type": "AverageValue", "averageValue": "1500m"}


@pytest.mark.parametrize(
    ("annotation", "side", "other"),
    [("paused-scale-in", "scaleDown", "scaleUp"), ("paused-scale-out", "scaleUp", "scaleDown")],
)
def test_a_direction_held_back_is_disabled(annotation: str, side: str, other: str) -> None:
    """A behavior is made where there is none, which changes the HPA's algorithm as well."""
    annotations = {f"autoscaling.keda.sh/{annotation}": "true"}
    given = {other: {"stabilizationWindowSeconds": 5}, side: {"selectPolicy": "Min"}}
    config = {"horizontalPodAutoscalerConfig": {"behavior": given}}

    bare = hpa_of([KAFKA], annotations=annotations)
    merged = hpa_of([KAFKA], advanced=config, annotations=annotations)

    assert bare["spec"]["behavior"] == {side: {"selectPolicy": "Disabled"}}
    assert merged["spec"]["behavior"] == {
        other: {"stabilizationWindowSeconds": 5},
        side: {"selectPolicy": "Disabled"},
    }
    assert given[side] == {"selectPolicy": "Min"}
    assert parse_hpa(bare, where="h").behavior is not None


def test_labels_of_the_object_win_and_can_be_left_out() -> None:
    """KEDA copies the ScaledObject's labels over its own, except for those excluded."""
    hpa = hpa_of(
        [KAFKA],
        labels={"app.kubernetes.io/part-of": "bench", "secret": "x", "team": "t"},
        annotations={"scaledobject.keda.sh/hpa-excluded-labels": "secret,other"},
    )

    labels = hpa["metadata"]["labels"]
    assert labels["app.kubernetes.io/part-of"] == "bench"
    assert labels["app.kubernetes.io/managed-by"] == "keda-operator"
    assert labels["team"] == "t"
    assert labels["scaledobject.keda.sh/name"] == "w"
    assert "secret" not in labels
