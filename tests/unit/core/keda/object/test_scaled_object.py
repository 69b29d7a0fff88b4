"""ScaledObjects: defaults, strict fields, bounds, and the HPA that is made of them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lagbench.core.hpa.spec import parse_hpa
from lagbench.core.keda.loop.hpa_builder import build_hpa
from lagbench.core.keda.loop.metric_specs import trigger_metric_spec
from lagbench.core.keda.object.scaled_object import TriggerRefused, parse_scaled_object
from lagbench.errors import WrongInput

TRIGGER = {
    "type": "kafka",
    "metadata": {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "a.b/c"},
}


def manifest(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a ScaledObject with one kafka trigger."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n", "uid": "u", **metadata},
        "spec": {"scaleTargetRef": {"name": "w"}, "triggers": [TRIGGER], **(spec or {})},
    }


def hpa_of(source: dict[str, Any]) -> dict[str, Any]:
    """Return the HPA of a ScaledObject whose triggers all know their metrics."""
    spec = parse_scaled_object(source, where="f")
    specs = [trigger_metric_spec(trigger) for trigger in spec.triggers]
    return build_hpa(spec, source["metadata"], [item for item in specs if item is not None])


def test_defaults_are_kedas() -> None:
    """What is left out is 30 s polling, 300 s cooldown, no minimum, 100 at most."""
    spec = parse_scaled_object(manifest(), where="f")

    assert (spec.polling_interval_seconds, spec.cooldown_seconds) == (30, 300)
    assert (spec.min_replica_count, spec.max_replica_count) == (None, 100)
    assert spec.hpa_name == "keda-hpa-w"
    assert spec.triggers[0].metric_name == "s0-kafka-a-b-c"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minReplicas": 2}, "spec.minReplicas"),
        ({"pollingInterval": 0}, "spec.pollingInterval"),
        ({"pollingInterval": 1.5}, "spec.pollingInterval"),
        ({"cooldownPeriod": -1}, "spec.cooldownPeriod"),
        ({"maxReplicaCount": 3_000_000_000}, "spec.maxReplicaCount"),
        ({"minReplicaCount": 101}, "spec.minReplicaCount"),
        ({"triggers": []}, "spec.triggers"),
        ({"scaleTargetRef": {}}, "spec.scaleTargetRef.name"),
        ({"fallback": {"failureThreshold": 3}}, "spec.fallback.replicas"),
        (
            {"fallback": {"failureThreshold": 3, "replicas": 6, "behavior": "keep"}},
            "spec.fallback.behavior",
        ),
        (
            {"advanced": {"scalingModifiers": {"formula": "a", "target": 10}}},
            "spec.advanced.scalingModifiers.target",
        ),
        ({"triggers": [{"type": "redis", "metadata": {}}]}, "spec.triggers[0].type"),
        (
            {"triggers": [{**TRIGGER, "metadata": {"lagThreshold": 10}}]},
            "spec.triggers[0].metadata.lagThreshold",
        ),
        (
            {"triggers": [{**TRIGGER, "name": "a"}, {**TRIGGER, "name": "a"}]},
            "spec.triggers[1].name",
        ),
        (
            {
                "advanced": {
                    "horizontalPodAutoscalerConfig": {
                        "behavior": {"scaleDown": {"stabilisationWindowSeconds": 60}}
                    }
                }
            },
            (
                "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown"
                ".stabilisationWindowSeconds"
            ),
        ),
    ],
)
def test_a_wrong_field_is_named(spec: dict[str, Any], field: str) -> None:
    """The error names the file and the field."""
    with pytest.raises(WrongInput) as caught:
        parse_scaled_object(manifest(spec), where="policy.yaml")

    assert (caught.value.where, caught.value.field) == ("policy.yaml", field)


def test_a_misspelt_field_is_named_with_the_right_one() -> None:
    """What was meant is told."""
    with pytest.raises(WrongInput, check=lambda error: "minReplicaCount" in error.allowed):
        parse_scaled_object(manifest({"minReplicas": 2}), where="f")


@pytest.mark.parametrize(
    ("minimum", "idle", "is_allowed"),
    [(0, 0, True), (None, 0, False), (1, 0, True), (2, 2, False), (2, 1, True), (2, 3, False)],
)
def test_idle_must_be_below_the_minimum(minimum: int | None, idle: int, is_allowed: bool) -> None:
    """A written minimum of 0 counts as 1, an absent one as 0."""
    spec: dict[str, Any] = {"idleReplicaCount": idle}
    if minimum is not None:
        spec["minReplicaCount"] = minimum

    if is_allowed:
        assert parse_scaled_object(manifest(spec), where="f").idle_replica_count == idle
    else:
        with pytest.raises(TriggerRefused, match=f"IdleReplicaCount={idle}"):
            parse_scaled_object(manifest(spec), where="f")


@pytest.mark.parametrize(
    "metadata",
    [
        {"lagThreshold": "0"},
        {"lagThreshold": "+10"},
        {"lagThreshold": "010"},
        {"lagThreshold": "1.0"},
        {"excludePersistentLag": "maybe"},
        {"offsetResetPolicy": "newest"},
        {"version": "9.x"},
        {"partitionLimitation": "1-2-3"},
        {"consumerGroup": " "},
    ],
)
def test_a_refused_trigger_carries_kedas_own_message(metadata: dict[str, str]) -> None:
    """Its text is held by recorded ones; it names the parameter or its value, also pickled."""
    trigger = {**TRIGGER, "metadata": {**TRIGGER["metadata"], **metadata}}  # type: ignore[dict-item]

    with pytest.raises(TriggerRefused) as caught:
        parse_scaled_object(manifest({"triggers": [trigger]}), where="f")

    ((name, value),) = metadata.items()
    assert name in caught.value.keda_message or value in caught.value.keda_message
    copied = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert copied.keda_message == caught.value.keda_message


def test_spaces_around_a_number_are_no_error() -> None:
    """A blank value is the default, blanks around a value are dropped, as KEDA has it."""
    padded = {**TRIGGER["metadata"], "lagThreshold": " 20 ", "activationLagThreshold": " "}  # type: ignore[dict-item]

    spec = parse_scaled_object(manifest({"triggers": [{**TRIGGER, "metadata": padded}]}), where="f")

    assert spec.triggers[0].parameters.lag_threshold == 20
    assert spec.triggers[0].parameters.activation_lag_threshold == 0


def test_a_parameter_can_come_from_the_target_container() -> None:
    """``bootstrapServersFromEnv`` names a variable of the target's container."""
    metadata = {"bootstrapServersFromEnv": "SERVERS", "consumerGroup": "g", "topic": "t"}
    source = manifest({"triggers": [{"type": "kafka", "metadata": metadata}]})

    spec = parse_scaled_object(source, where="f", environment={"SERVERS": "x:1, y:2"})

    assert spec.triggers[0].parameters.bootstrap_servers == ("x:1", "y:2")


def test_the_hpa_never_goes_to_zero_and_carries_the_annotations() -> None:
    """MinReplicas is at least 1; owner, labels, annotations and metric are KEDA's."""
    source = manifest({"minReplicaCount": 0}, annotations={"lagbench.io/run-id": "r"})

    hpa = hpa_of(source)

    assert hpa["spec"]["minReplicas"] == 1
    assert hpa["metadata"]["annotations"] == {"lagbench.io/run-id": "r"}
    assert hpa["metadata"]["ownerReferences"][0]["uid"] == "u"
    assert hpa["metadata"]["labels"]["scaledobject.keda.sh/name"] == "w"
    external = hpa["spec"]["metrics"][0]["external"]
    assert external["target"] == {"type": "AverageValue", "averageValue": "10"}
    assert external["metric"]["name"] == "s0-kafka-a-b-c"
    assert "behavior" not in hpa["spec"]


def test_behavior_gets_the_api_servers_defaults_only_when_it_is_there() -> None:
    """No behavior stays none; an empty one brings Percent 100/15 and Pods 4/15 upwards."""
    none = parse_hpa(hpa_of(manifest()), where="h")
    config = {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": {}}}}
    empty = parse_hpa(hpa_of(manifest(config)), where="h")

    assert none.behavior is None
    assert empty.behavior is not None
    up, down = empty.behavior.scale_up, empty.behavior.scale_down
    assert [(p.type, p.value, p.period_seconds) for p in up.policies] == [
        ("Pods", 4, 15),
        ("Percent", 100, 15),
    ]
    assert (up.window_seconds, down.window_seconds) == (0, None)
