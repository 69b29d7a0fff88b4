"""What is wrong with a ScaledObject: all of it, in KEDA's order, and who says so."""

import pickle
from typing import Any

import pytest

from lagbench.core.keda.object.scaled_object import (
    Fallback,
    NotSupported,
    TriggerRefused,
    find_problems,
    parse_scaled_object,
)
from lagbench.errors import WrongInput

KAFKA = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}
CRON = {"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "desiredReplicas": "2"}


def manifest(*triggers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a ScaledObject; without triggers it has one on a topic."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": {
            "scaleTargetRef": {"name": "w"},
            "triggers": list(triggers) or [{"type": "kafka", "metadata": KAFKA}],
            **spec,
        },
    }


def kafka(**metadata: str) -> dict[str, Any]:
    """Return a kafka trigger with some parameters added."""
    return {"type": "kafka", "metadata": {**KAFKA, **metadata}}


def test_all_problems_are_found_in_kedas_order() -> None:
    """The CRD's come first, then counts, triggers together, each trigger, and the HPA's last."""
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 4000}}
    wrong = manifest(
        kafka(lagThreshold="0"),
        {"type": "cron", "metadata": CRON, "useCachedMetrics": True},
        {"type": "redis", "metadata": {}},
        pollingInterval=0,
        advanced={"horizontalPodAutoscalerConfig": {"behavior": behavior}},
    )

    problems = find_problems(wrong, where="f")

    assert [problem.field for problem in problems] == [
        "spec.pollingInterval",
        "spec.triggers[1].useCachedMetrics",
        "spec.triggers[0].metadata",
        "spec.triggers[2].type",
        "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds",
    ]
    assert [type(problem) for problem in problems] == [
        WrongInput,
        TriggerRefused,
        TriggerRefused,
        NotSupported,
        TriggerRefused,
    ]
    with pytest.raises(WrongInput) as caught:
        parse_scaled_object(wrong, where="f")
    assert str(caught.value) == str(problems[0])


def test_a_right_object_has_no_problem() -> None:
    """Nothing is found where nothing is wrong."""
    assert find_problems(manifest(), where="f") == ()


@pytest.mark.parametrize("spec", [None, [], "text"])
def test_a_spec_that_is_none(spec: object) -> None:
    """Without a spec there is one problem and no crash."""
    problems = find_problems({**manifest(), "spec": spec}, where="f")

    assert [problem.field for problem in problems] == ["spec"]


def test_a_refusal_can_be_pickled() -> None:
    """The text of Ready=False comes along, and so does the hint."""
    idle = find_problems(manifest(idleReplicaCount=0), where="f")[0]
    unknown = find_problems(manifest({"type": "kafak", "metadata": {}}), where="f")[0]

    for problem in (idle, unknown):
        assert isinstance(problem, TriggerRefused)
        copied = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
        assert (copied.condition_message, str(copied)) == (
            problem.condition_message,
            str(problem),
        )


@pytest.mark.parametrize("sasl", ["gssapi", "oauthbearer"])
def test_sasl_that_this_bench_does_not_speak(sasl: str) -> None:
    """It is rejected by name once KEDA's own rules are met, and never taken for another kind."""
    trigger = {**kafka(sasl=sasl), "authenticationRef": {"name": "a"}}
    secrets = {
        "username": "u",
        "password": "p",
        "realm": "R",
        "kerberosConfig": "c",
        "oauthTokenEndpointUri": "https://t",
    }

    problem = find_problems(manifest(trigger), where="f", auth={0: secrets})[0]

    assert isinstance(problem, NotSupported)
    assert problem.value == sasl
    assert str(pickle.loads(pickle.dumps(problem))) == str(problem)  # noqa: S301 - our own bytes


def test_secrets_that_are_not_known_yet_are_not_missing() -> None:
    """Without ``auth`` a referenced login is not judged; with it an empty one is rejected."""
    trigger = {**kafka(sasl="plaintext"), "authenticationRef": {"name": "a"}}
    source = manifest(trigger)

    spec = parse_scaled_object(source, where="f")
    resolved = parse_scaled_object(source, where="f", auth={0: {"username": "u", "password": "p"}})

    ref = spec.triggers[0].authentication_ref
    assert ref is not None
    assert (ref.name, ref.kind) == ("a", "TriggerAuthentication")
    assert resolved.triggers[0].parameters.security.username == "u"  # type: ignore[union-attr]
    with pytest.raises(TriggerRefused, match="username"):
        parse_scaled_object(source, where="f", auth={})
    with pytest.raises(TriggerRefused, match="username"):
        parse_scaled_object(manifest(kafka(sasl="plaintext")), where="f")


@pytest.mark.parametrize(
    ("target", "counts"), [("10", True), ("2.5", False), ("0.5", False), ("1e1", False)]
)
def test_a_fallback_with_a_fractional_target_does_not_count(target: str, counts: bool) -> None:
    """KEDA reads the target as a whole number there and otherwise goes without the fallback."""
    trigger = {**kafka(), "name": "a"}
    spec = parse_scaled_object(
        manifest(
            trigger,
            fallback={"failureThreshold": 3, "replicas": 6, "behavior": "currentReplicas"},
            advanced={"scalingModifiers": {"formula": "a", "target": target}},
        ),
        where="f",
    )

    fallback = Fallback(failure_threshold=3, replicas=6, behavior="currentReplicas")
    assert spec.fallback == fallback
    assert spec.valid_fallback == (fallback if counts else None)


def test_an_object_has_only_resources_when_no_trigger_is_kedas_to_poll() -> None:
    """CPU beside other triggers is not alone; CPU by itself is."""
    cpu = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
    external = {"type": "external-push", "metadata": {"scalerAddress": "s:1"}}
    spec = parse_scaled_object(
        manifest(cpu, kafka(), external, {"type": "cron", "metadata": CRON}), where="f"
    )

    assert not spec.has_only_resources
    assert parse_scaled_object(manifest(cpu), where="f").has_only_resources
