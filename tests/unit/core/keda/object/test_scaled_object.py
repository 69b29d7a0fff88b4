"""ScaledObjects: defaults, what is refused and by whom, annotations, scalingModifiers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.fakes import policies
from tests.fakes.policies import behavior, cron

from lagbench.core.keda.object.scaled_object import parse_scaled_object, read_scaled_object
from lagbench.core.keda.object.scaled_object_spec import (
    Fallback,
    ScaledObjectSpec,
    ScalingAnnotations,
    parse_scaling_annotations,
)
from lagbench.core.keda.triggers.trigger_parameters import NotSupported, TriggerRefused
from lagbench.errors import WrongInput

CACHED_CRON = {**cron(), "useCachedMetrics": True}
CONFIG = "advanced.horizontalPodAutoscalerConfig"
MODIFIERS = "advanced.scalingModifiers"


def kafka(name: str = "", **metadata: Any) -> dict[str, Any]:
    """Return a kafka trigger with some parameters replaced."""
    named = {"name": name} if name else {}
    return {**policies.kafka(**{"lagThreshold": None, **metadata}), **named}


def manifest(**spec: Any) -> dict[str, Any]:
    """Return a ScaledObject with two named triggers and nothing else, unless the spec has it."""
    bare = {"minReplicaCount": None, "maxReplicaCount": None, "advanced": None}
    return policies.scaled_object(**{**bare, "triggers": [kafka("a"), kafka("b")], **spec})


def modifiers(**given: Any) -> dict[str, Any]:
    """Return ``advanced`` with ``a + b`` against 10, and some fields changed."""
    return {"scalingModifiers": {"formula": "a + b", "target": "10", **given}}


def parsed(**spec: Any) -> ScaledObjectSpec:
    """Return the spec of such an object."""
    return parse_scaled_object(manifest(**spec), where="policy.yaml")


def test_defaults_are_kedas() -> None:
    """What is left out is 30 s polling, 300 s cooldown, no minimum, 100 at most."""
    spec = parsed()

    assert (spec.polling_interval_seconds, spec.cooldown_seconds) == (30, 300)
    assert (spec.min_replica_count, spec.max_replica_count) == (None, 100)
    assert spec.hpa_name == "keda-hpa-so"
    assert spec.triggers[0].metric_name == "s0-kafka-t"


@pytest.mark.parametrize(
    ("spec", "field", "refusal"),
    [
        ({"minReplicas": 2}, "minReplicas", "schema"),
        ({"pollingInterval": 1.5}, "pollingInterval", "schema"),
        ({"triggers": []}, "triggers", "schema"),
        ({"scaleTargetRef": {}}, "scaleTargetRef.name", "schema"),
        (
            {"fallback": {"failureThreshold": 3, "replicas": 6, "behavior": "keep"}},
            "fallback.behavior",
            "schema",
        ),
        ({"advanced": modifiers(target=10)}, f"{MODIFIERS}.target", "schema"),
        ({"triggers": [kafka(lagThreshold=10)]}, "triggers[0].metadata.lagThreshold", "schema"),
        ({"minReplicaCount": 101}, "minReplicaCount", "bounds"),
        ({"idleReplicaCount": 0}, "idleReplicaCount", "bounds"),
        ({"triggers": [kafka("a"), kafka("a")]}, "triggers[1].name", "triggers"),
        ({"triggers": [CACHED_CRON]}, "triggers[0].useCachedMetrics", "triggers"),
        ({"triggers": [{"type": "redis", "metadata": {}}]}, "triggers[0].type", "here"),
        ({"triggers": [{"type": "kafak", "metadata": {}}]}, "triggers[0].type", "scaler"),
        ({"triggers": [kafka(sasl="plaintext")]}, "triggers[0].metadata.username", "scaler"),
        (
            {"triggers": [{**kafka(), "metricType": "Utilization"}]},
            "triggers[0].metricType",
            "scaler",
        ),
        ({"triggers": [{**kafka(), "metricType": "Total"}]}, "triggers[0].metricType", "hpa"),
        (
            {"advanced": behavior(scaleDown={"stabilizationWindowSeconds": 4000})},
            f"{CONFIG}.behavior.scaleDown.stabilizationWindowSeconds",
            "hpa",
        ),
        ({"advanced": modifiers(formula="")}, f"{MODIFIERS}.formula", "hpa"),
        ({"advanced": modifiers(target="")}, f"{MODIFIERS}.target", "hpa"),
        ({"advanced": modifiers(target="0")}, f"{MODIFIERS}.target", "hpa"),
        ({"advanced": modifiers(target="Inf")}, f"{MODIFIERS}.target", "here"),
        ({"advanced": modifiers(activationTarget="x")}, f"{MODIFIERS}.activationTarget", "here"),
        ({"advanced": modifiers(formula="first([a])")}, f"{MODIFIERS}.formula", "here"),
    ],
)
def test_what_is_wrong_is_named_with_who_refuses_it(
    spec: dict[str, Any], field: str, refusal: str
) -> None:
    """The API server, a step of KEDA's operator, the HPA's creation, or this bench alone."""
    with pytest.raises(WrongInput) as caught:
        parsed(**spec)

    error = caught.value
    assert (error.where, error.field) == ("policy.yaml", f"spec.{field}")
    kinds = {"schema": WrongInput, "here": NotSupported}
    assert type(error) is kinds.get(refusal, TriggerRefused)
    assert getattr(error, "stage", refusal) == refusal
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes


def test_all_problems_of_the_operator_come_in_kedas_order() -> None:
    """Triggers together, each trigger, and the HPA's last."""
    wrong = manifest(
        triggers=[kafka(lagThreshold="0"), CACHED_CRON, {"type": "redis", "metadata": {}}],
        advanced=behavior(scaleDown={"stabilizationWindowSeconds": 4000}),
    )
    problems = read_scaled_object(wrong, where="f")[1]

    assert [problem.field.rpartition(".")[2] for problem in problems] == [
        "useCachedMetrics",
        "lagThreshold",
        "type",
        "stabilizationWindowSeconds",
    ]
    assert read_scaled_object(manifest(), where="f")[1] == []


@pytest.mark.parametrize("spec", [None, [], "text"])
def test_a_spec_that_is_none(spec: object) -> None:
    """Without a spec there is one problem and no crash."""
    problems = read_scaled_object({**manifest(), "spec": spec}, where="f")[1]

    assert [problem.field for problem in problems] == ["spec"]


@pytest.mark.parametrize(("minimum", "idle"), [(0, 0), (1, 0), (2, 1)])
def test_idle_below_the_minimum_is_taken(minimum: int, idle: int) -> None:
    """A written minimum of 0 counts as 1."""
    assert parsed(minReplicaCount=minimum, idleReplicaCount=idle).idle_replica_count == idle


@pytest.mark.parametrize("sasl", ["gssapi", "oauthbearer"])
def test_sasl_that_this_bench_does_not_speak(sasl: str) -> None:
    """It is rejected by name once KEDA's own rules are met, and never taken for another kind."""
    secrets = {"username": "u", "password": "p", "realm": "R", "kerberosConfig": "c"}
    secrets["oauthTokenEndpointUri"] = "https://t"
    source = manifest(triggers=[{**kafka(sasl=sasl), "authenticationRef": {"name": "a"}}])

    with pytest.raises(NotSupported, check=lambda error: error.value == sasl):
        parse_scaled_object(source, where="f", auth={0: secrets})


def test_secrets_that_are_not_known_yet_are_not_missing() -> None:
    """Without ``auth`` a referenced login is not judged; with it an empty one is rejected."""
    trigger = {**kafka(sasl="plaintext"), "authenticationRef": {"name": "a"}}
    source = manifest(triggers=[trigger])

    spec = parse_scaled_object(source, where="f")
    resolved = parse_scaled_object(source, where="f", auth={0: {"username": "u", "password": "p"}})

    ref = spec.triggers[0].authentication_ref
    assert ref is not None
    assert (ref.name, ref.kind) == ("a", "TriggerAuthentication")
    assert resolved.triggers[0].parameters.security.username == "u"  # type: ignore[attr-defined]
    with pytest.raises(TriggerRefused, match="username"):
        parse_scaled_object(source, where="f", auth={})


@pytest.mark.parametrize(
    ("target", "milli", "counts"),
    [("10", 10_000, True), ("2.5", 2500, False), ("1e1", 10_000, False), ("0.0019", 1, False)],
)
def test_modifiers_and_the_fallback_beside_them(target: str, milli: int, counts: bool) -> None:
    """The target is kept in thousandths; a fallback counts only with a whole number."""
    fallback = Fallback(failure_threshold=3, replicas=6, behavior="currentReplicas")
    spec = parsed(
        fallback={"failureThreshold": 3, "replicas": 6, "behavior": "currentReplicas"},
        advanced=modifiers(target=target, activationTarget="5.5"),
    )

    assert spec.modifiers is not None
    assert (spec.modifiers.target_milli, spec.modifiers.activation_target) == (milli, 5.5)
    assert spec.fallback == fallback
    assert spec.valid_fallback == (fallback if counts else None)
    assert parsed(advanced=modifiers(formula="", target="")).modifiers is None


def test_a_parameter_can_come_from_the_target_container() -> None:
    """``bootstrapServersFromEnv`` names a variable of the target's container."""
    metadata = {"bootstrapServersFromEnv": "SERVERS", "consumerGroup": "g", "topic": "t"}
    source = manifest(triggers=[{"type": "kafka", "metadata": metadata}])

    spec = parse_scaled_object(source, where="f", environment={"SERVERS": "x:1, y:2"})

    assert spec.triggers[0].parameters.bootstrap_servers == ("x:1", "y:2")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"paused": "true"}, {"is_paused": True}),
        ({"paused": "yes"}, {"is_paused": True}),  # what is no boolean counts as true
        ({"paused": ""}, {"is_paused": True}),
        ({"paused": "false"}, {}),
        ({"paused": "0"}, {}),
        ({"paused": "false", "paused-replicas": "3"}, {"is_paused": True, "paused_replicas": 3}),
        (
            {"paused-scale-in": "true", "paused-scale-out": "false", "force-activation": "t"},
            {"scale_in_paused": True, "forces_activation": True},
        ),
        ({}, {}),
    ],
)
def test_annotations_that_hold_scaling(given: dict[str, str], wanted: dict[str, Any]) -> None:
    """Only what Go reads as false leaves the object running; a count pauses at that count."""
    annotations = {f"autoscaling.keda.sh/{key}": value for key, value in given.items()}

    found = parse_scaling_annotations({"metadata": {"annotations": annotations}})

    assert found == ScalingAnnotations(**wanted)
    assert parse_scaling_annotations({"metadata": None}) == ScalingAnnotations()


@pytest.mark.parametrize("value", ["abc", "3000000000"])
def test_a_count_to_pause_at_that_is_no_number(value: str) -> None:
    """The object is paused, and what is wrong with the count is kept."""
    annotations = {"autoscaling.keda.sh/paused-replicas": value}
    found = parse_scaling_annotations({"metadata": {"annotations": annotations}})

    assert (found.is_paused, found.paused_replicas) == (True, None)
    assert f'"{value}"' in found.paused_replicas_problem
