"""The HPA of several triggers: order, composite, held-back directions and labels."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.hpa.hpa_object import parse_hpa
from lagbench.core.keda.loop.keda_hpa import (
    CONTROLLER,
    SCALED_BY,
    as_driven,
    build_hpa,
    hpa_on_target,
    is_driven,
    is_handed_over,
    unpaused_problem,
    with_paused_of,
)
from lagbench.core.keda.loop.scalers import MetricSpec, trigger_metric_spec
from lagbench.core.keda.loop.zero_and_minimum import READY
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import PAUSED, PAUSED_REPLICAS

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


KEDA_PAUSED = {"type": "Paused", "status": "True", "reason": "ScaledObjectPaused"}


def scaled_object(**annotations: str) -> dict[str, Any]:
    """Return a ScaledObject on the Deployment ``w`` that KEDA has paused."""
    return {
        "metadata": {"namespace": "n", "name": "s", "annotations": annotations},
        "spec": {"scaleTargetRef": {"name": "w"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}, KEDA_PAUSED]},
    }


@pytest.mark.parametrize(
    ("annotations", "is_ours"),
    [({}, False), ({SCALED_BY: "another"}, False), ({SCALED_BY: CONTROLLER}, True)],
)
def test_an_object_names_its_controller(annotations: dict[str, str], is_ours: bool) -> None:
    """Only an object that names this controller is its own; a pause alone is just a pause."""
    assert is_handed_over(scaled_object(**annotations, **{PAUSED: "true"})) is is_ours


@pytest.mark.parametrize("pause", [{PAUSED: "true"}, {PAUSED: "1"}, {PAUSED_REPLICAS: "3"}])
def test_a_pause_is_what_keda_takes_for_one(pause: dict[str, str]) -> None:
    """KEDA leaves the target alone with either annotation."""
    assert unpaused_problem(scaled_object(**pause)) == ""


@pytest.mark.parametrize("pause", [{}, {PAUSED: "false"}])
def test_without_a_pause_there_are_two_controllers(pause: dict[str, str]) -> None:
    """The message names the object and the annotation."""
    problem = unpaused_problem(scaled_object(**pause))

    assert "ScaledObject n/s" in problem
    assert PAUSED in problem


def test_the_pause_is_for_keda_only() -> None:
    """The object as driven is not paused; a count to pause at binds both controllers."""
    driven = as_driven(scaled_object(**{PAUSED: "true", PAUSED_REPLICAS: "3", "a": "b"}))

    assert driven["metadata"]["annotations"] == {PAUSED_REPLICAS: "3", "a": "b"}
    assert [c["type"] for c in driven["status"]["conditions"]] == ["Ready"]


def test_keda_s_ready_is_not_ours() -> None:
    """KEDA calls an object Ready while it is paused; taken up it is with the controller's Ready."""
    ready = {"type": "Ready", "status": "True", "message": "ScaledObject is paused"}

    assert not is_driven({"status": {"conditions": [ready]}})
    assert is_driven({"status": {"conditions": [{**ready, "message": READY.message}]}})
    assert not is_driven({})


def test_the_paused_condition_stays_as_keda_wrote_it() -> None:
    """Whatever this controller says of a pause, the stored condition is kept."""
    ours = [{"type": "Ready", "status": "False"}, {"type": "Paused", "status": "False"}]

    assert with_paused_of(ours, scaled_object()) == [ours[0], KEDA_PAUSED]
    assert with_paused_of(ours, {}) == [ours[0]]


@pytest.mark.parametrize(
    ("namespace", "kind", "name", "found"),
    [
        ("n", "Deployment", "w", "h"),
        ("other", "Deployment", "w", ""),
        ("n", "StatefulSet", "w", ""),
        ("n", "Deployment", "v", ""),
    ],
)
def test_an_hpa_on_the_same_target_is_found(
    namespace: str, kind: str, name: str, found: str
) -> None:
    """Namespace, kind and name have to be the same."""
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    hpa = {"metadata": {"namespace": namespace, "name": "h"}, "spec": {"scaleTargetRef": target}}

    assert hpa_on_target(scaled_object(), [hpa]) == found
