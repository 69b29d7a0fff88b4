"""What is found in a policy: each code once, and not where it does not belong."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.core.policy.review.subject import PolicyContext
from lagbench.errors import WrongInput

CASES = Path(__file__).parents[4] / "data" / "keda_webhook_cases.json.gz"
METADATA = {
    "bootstrapServers": "kafka:9092",
    "consumerGroup": "g",
    "topic": "t",
    "lagThreshold": "500",
    "offsetResetPolicy": "earliest",
}
CALM = {"scaleDown": {"stabilizationWindowSeconds": 300}}


def kafka(**metadata: str) -> dict[str, Any]:
    """Return a kafka trigger with some parameters more."""
    return {"type": "kafka", "metadata": {**METADATA, **metadata}}


EXTERNAL = {"type": "external", "metadata": {"scalerAddress": "s:6000"}}
LAG_SCALER = {"type": "external", "metadata": {**METADATA, "scalerAddress": "s:6000"}}
CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}
CRON = {
    "type": "cron",
    "metadata": {
        "timezone": "Etc/UTC",
        "start": "0 8 * * *",
        "end": "0 18 * * *",
        "desiredReplicas": "5",
    },
}
SPEC: dict[str, Any] = {
    "scaleTargetRef": {"name": "w"},
    "minReplicaCount": 2,
    "maxReplicaCount": 12,
    "advanced": {"horizontalPodAutoscalerConfig": {"behavior": CALM}},
    "triggers": [kafka()],
}


def policy(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a good ScaledObject with fields of its spec replaced; None takes one away."""
    whole = {**copy.deepcopy(SPEC), **spec}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "so", "annotations": annotations or {}},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def review(annotations: dict[str, str] | None = None, **spec: Any) -> PolicyReview:
    """Return the review of such a policy on 12 partitions."""
    context = PolicyContext(partitions=12)
    return review_policy(policy(annotations, **spec), where="file", context=context)


def behavior(**rules: Any) -> dict[str, Any]:
    """Return ``advanced`` with a behavior of these rules."""
    return {"horizontalPodAutoscalerConfig": {"behavior": rules}}


def composite(formula: str, **more: str) -> dict[str, Any]:
    """Return the spec of two named triggers under a formula."""
    triggers = [{**kafka(), "name": "a"}, {**kafka(), "name": "b"}]
    modifiers = {"formula": formula, "target": "10", **more}
    return {"triggers": triggers, "advanced": {"scalingModifiers": modifiers}}


def test_a_plain_policy_warns_of_nothing() -> None:
    """Only the note on the tolerance at the cap is left."""
    found = review()

    assert found.codes == ("cap-sticks",)
    assert found.climb == (2, 6, 12)


@pytest.mark.parametrize(
    ("code", "level", "spec"),
    [
        ("min-absent", "warning", {"minReplicaCount": None}),
        ("max-absent", "warning", {"maxReplicaCount": None}),
        ("idle-flaps", "warning", {"minReplicaCount": 3, "idleReplicaCount": 1}),
        ("max-over-partitions", "warning", {"maxReplicaCount": 24}),
        ("polling-interval-ignored", "warning", {"pollingInterval": 10}),
        ("polling-interval-from-zero", "note", {"pollingInterval": 10, "minReplicaCount": 0}),
        ("cooldown-ignored", "warning", {"cooldownPeriod": 60}),
        ("initial-cooldown-ignored", "warning", {"initialCooldownPeriod": 60}),
        ("cached-metrics", "note", {"triggers": [{**kafka(), "useCachedMetrics": True}]}),
        ("no-behavior", "note", {"advanced": None}),
        ("up-window-waits", "note", {"advanced": behavior(scaleUp=CALM["scaleDown"])}),
        (
            "down-window-short",
            "warning",
            {"advanced": behavior(scaleDown={"stabilizationWindowSeconds": 0})},
        ),
        ("tolerance-ignored", "warning", {"advanced": behavior(scaleUp={"tolerance": "0.05"})}),
        ("policies-empty", "warning", {"advanced": behavior(scaleUp={"policies": []})}),
        (
            "down-disabled",
            "warning",
            {"advanced": behavior(scaleDown={"selectPolicy": "Disabled"})},
        ),
        ("threshold-default", "warning", {"triggers": [kafka(lagThreshold="")]}),
        ("parameter-ignored", "warning", {"triggers": [kafka(authenticationMode="sasl")]}),
        ("parameter-ignored", "warning", {"triggers": [kafka(lagTreshold="5")]}),
        ("login-in-metadata", "warning", {"triggers": [kafka(password="x")]}),  # noqa: S106
        ("latest-hides-backlog", "warning", {"triggers": [kafka(offsetResetPolicy="latest")]}),
        ("persistent-lag-flaps", "warning", {"triggers": [kafka(excludePersistentLag="true")]}),
        ("limitation-ignored", "warning", {"triggers": [kafka(topic="", partitionLimitation="1")]}),
        ("all-topics", "warning", {"triggers": [kafka(topic="")]}),
        ("activation-ignored", "warning", {"triggers": [kafka(activationLagThreshold="5")]}),
        ("value-target", "warning", {"triggers": [{**kafka(), "metricType": "Value"}]}),
        (
            "even-never-zero",
            "note",
            {"triggers": [kafka(ensureEvenDistributionOfPartitions="true")]},
        ),
        (
            "idle-consumers-ignored",
            "warning",
            {
                "triggers": [
                    kafka(ensureEvenDistributionOfPartitions="true", allowIdleConsumers="true")
                ]
            },
        ),
        ("fallback-broker-down", "warning", {"fallback": {"failureThreshold": 3, "replicas": 6}}),
        ("fallback-to-zero", "warning", {"fallback": {"failureThreshold": 0, "replicas": 0}}),
        ("fallback-over-max", "warning", {"fallback": {"failureThreshold": 0, "replicas": 60}}),
        (
            "fallback-external",
            "warning",
            {"triggers": [EXTERNAL], "fallback": {"failureThreshold": 0, "replicas": 6}},
        ),
        (
            "fallback-void",
            "warning",
            {
                **composite("a + b", target="2.5"),
                "fallback": {"failureThreshold": 3, "replicas": 6},
            },
        ),
        ("failing-trigger-blocks", "warning", {"triggers": [kafka(), CRON]}),
        ("source-down-at-creation", "note", {"triggers": [kafka(), CPU]}),
        ("composite-negative", "warning", composite("a - b")),
        ("composite-targets", "note", composite("a + b")),
        ("lag-not-seen", "warning", {"triggers": [CPU]}),
        ("request-not-checked", "note", {"triggers": [kafka(), CPU]}),
        (
            "timezone-unknown",
            "broken",
            {"triggers": [{**CRON, "metadata": {**CRON["metadata"], "timezone": "Mars/Base"}}]},
        ),
        ("cron-over-max", "warning", {"triggers": [CRON], "maxReplicaCount": 4}),
        (
            "scaler-address",
            "broken",
            {"triggers": [{**EXTERNAL, "metadata": {"scalerAddress": "http://s:6000"}}]},
        ),
        (
            "scaler-address",
            "warning",
            {"triggers": [{**EXTERNAL, "metadata": {"scalerAddress": "s"}}]},
        ),
        ("sustain-waits", "note", {"triggers": [LAG_SCALER]}),
        ("small-backlog-sleeps", "warning", {"triggers": [LAG_SCALER], "minReplicaCount": 0}),
        ("small-backlog-sleeps", "warning", {"triggers": [LAG_SCALER], "idleReplicaCount": 0}),
        (
            "lag-scaler-refuses",
            "broken",
            {
                "triggers": [
                    {**LAG_SCALER, "metadata": {**LAG_SCALER["metadata"], "windowSize": "2"}}
                ]
            },
        ),
        ("target-not-scalable", "broken", {"scaleTargetRef": {"name": "w", "kind": "DaemonSet"}}),
        ("operator-refuses", "broken", {"triggers": [kafka(lagThreshold="0")]}),
        (
            "hpa-refused",
            "broken",
            {"advanced": behavior(scaleDown={"stabilizationWindowSeconds": 3601})},
        ),
        ("not-rehearsed-here", "warning", {"triggers": [{"type": "rabbitmq", "metadata": {}}]}),
        ("not-rehearsed-here", "warning", composite("first([a, b])")),
        ("unknown-field", "refused", {"minReplicas": 3}),
        ("schema", "refused", {"pollingInterval": 0}),
        ("replica-counts", "refused", {"idleReplicaCount": 2}),
    ],
)
def test_each_code(code: str, level: str, spec: dict[str, Any]) -> None:
    """The finding is raised at its level, with a field and what happens."""
    found = [item for item in review(**spec).findings if item.code == code]

    assert {item.level for item in found} == {level}
    assert all(item.field and item.happens for item in found)


@pytest.mark.parametrize(
    ("annotation", "value", "code"),
    [
        ("paused", "true", "scaling-held"),
        ("paused", "yes", "annotation-not-boolean"),
        ("paused-scale-in", "true", "scaling-held"),
        ("paused-replicas", "3", "scaling-held"),
        ("paused-replicas", "abc", "paused-replicas"),
    ],
)
def test_annotations_that_hold_scaling(annotation: str, value: str, code: str) -> None:
    """What stops scaling, or is read as if it did, is named."""
    assert code in review({f"autoscaling.keda.sh/{annotation}": value}).codes


@pytest.mark.parametrize(
    ("annotations", "syncs"), [({}, 2), ({"lagbench.io/hpa-sync-seconds": "5"}, 5)]
)
def test_a_window_is_counted_in_the_syncs_of_the_policy(
    annotations: dict[str, str], syncs: int
) -> None:
    """20 s are two syncs, or five if the annotation sets 5 s."""
    window = behavior(scaleDown={"stabilizationWindowSeconds": 20})
    found = {f.code: f for f in review(annotations, advanced=window, pollingInterval=10).findings}

    assert f"at most {syncs} syncs" in found["down-window-short"].happens
    every = "every 15 s" if not annotations else "every 5 s"
    assert every in found["polling-interval-ignored"].happens


def test_a_policy_that_is_handed_over_is_paused_for_keda_alone() -> None:
    """The pause is then no warning; without it there would be two controllers."""
    mark, pause = {SCALED_BY: CONTROLLER}, {PAUSED: "true"}

    assert "handed-over" in review({**mark, **pause}).codes
    assert "scaling-held" not in review({**mark, **pause}).codes
    assert "two-controllers" in review(mark).codes


@pytest.mark.parametrize(
    "spec",
    [
        {"triggers": [LAG_SCALER], "minReplicaCount": 1},
        {"triggers": [LAG_SCALER, kafka()], "minReplicaCount": 0},
    ],
)
def test_something_else_reads_a_small_backlog(spec: dict[str, Any]) -> None:
    """A pod that always runs, or a kafka trigger, takes care of lag below the threshold."""
    assert "small-backlog-sleeps" not in review(**spec).codes


@pytest.mark.parametrize("formula", ["max(a - b, 0)", "abs(a - b)", "a - b > 0 ? a : b", "a + b"])
def test_a_bounded_formula_is_not_negative(formula: str) -> None:
    """Only a subtraction whose result goes to the HPA is warned of."""
    assert "composite-negative" not in review(**composite(formula)).codes


def test_a_climb_that_ends_below_the_cap_is_a_warning() -> None:
    """With two pods per sync from 3 on, 12 partitions get 11 consumers permanently."""
    slow = {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 15}]}
    found = review(minReplicaCount=3, advanced=behavior(scaleUp=slow))

    sticks = next(item for item in found.findings if item.code == "cap-sticks")
    assert sticks.level == "warning"
    assert found.climb == (3, 5, 7, 9, 11)


def test_misspelt_fields_of_the_article_get_the_right_name() -> None:
    """The fields minReplicas and maxReplicas are answered with the names that KEDA has."""
    found = review(minReplicas=3, maxReplicas=50)

    assert {item.instead for item in found.findings} == {"minReplicaCount", "maxReplicaCount"}


def test_plain_is_answered_with_plaintext() -> None:
    """The article's sasl value is one of Kafka's, not of KEDA's."""
    found = review(triggers=[kafka(sasl="plain")])

    assert found.findings[0].instead == "sasl: plaintext"


@pytest.mark.parametrize("spec", [{}, {"pollingInterval": 0}, {"triggers": [kafka(sasl="x")]}])
def test_a_login_is_never_shown(spec: dict[str, Any]) -> None:
    """A password in the metadata appears in no finding, whatever else is wrong."""
    changed = {"triggers": [kafka()], **copy.deepcopy(spec)}
    for value in ("s3cret", 53, "keyfile"):
        changed["triggers"][0]["metadata"]["password"] = value

        found = review(**changed)

        assert str(value) not in json.dumps([item.as_dict() for item in found.findings])


def test_an_object_that_the_operator_refuses_cannot_run() -> None:
    """Of the recorded rows that were stored, those never ready are found, except for five.

    The five depend on what is running: a broker or server that is not there, a target that is not.
    """
    missed = []
    for row in json.loads(gzip.decompress(CASES.read_bytes())):
        if not row["accepted"] or row["field_validation"] != "Strict":
            continue
        found = review_policy(row["manifest"], where=row["name"])
        ready = [item["status"] for item in row["conditions"] if item["type"] == "Ready"]
        if (ready == ["False"]) == found.can_run:
            missed.append(row["name"])

    assert missed == [
        "kafka-broker-unreachable",
        "kafka-tls-no-cert",
        "target-missing",
        "target-env-container-missing",
        "external-unreachable",
    ]


def documents(*more: dict[str, Any]) -> tuple[str, ...]:
    """Return the codes of a policy on CPU and lag whose file holds these documents as well."""
    file = review_documents([*more, policy(triggers=[kafka(), CPU])], where="file")
    return file.policies[0].codes


def workload(name: str, requests: dict[str, str]) -> dict[str, Any]:
    """Return a Deployment with one container."""
    container = {"name": "c", "resources": {"requests": requests}, "env": [{"name": "V"}]}
    template = {"spec": {"containers": [container]}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": {"template": template}}


def test_other_documents_of_the_file_are_looked_at() -> None:
    """The target's requests are checked when it is in the file, else its absence is told."""
    assert "request-not-checked" in documents()
    assert "request-missing" in documents(workload("w", {}))
    assert "target-missing" in documents(workload("other", {"cpu": "1"}))
    assert not {"request-missing", "request-not-checked"} & set(
        documents(workload("w", {"cpu": "1"}))
    )


def test_two_policies_on_one_target_are_refused() -> None:
    """Applied from top to bottom, the second ScaledObject meets the first."""
    second = policy()
    second["metadata"]["name"] = "other"

    found = review_documents([policy(), second], where="file").policies

    assert [item.is_accepted for item in found] == [True, False]
    assert found[1].refused_by == "webhook"


def test_a_login_that_is_not_in_the_file_is_noted() -> None:
    """A TriggerAuthentication of the file answers the reference."""
    asked = policy(triggers=[{**kafka(), "authenticationRef": {"name": "login"}}])
    login = {"kind": "TriggerAuthentication", "metadata": {"name": "login"}}

    alone, together = (
        review_documents(items, where="file").policies[0].codes
        for items in ([asked], [asked, login])
    )

    assert "login-not-in-file" in alone
    assert "login-not-in-file" not in together


def test_an_hpa_is_reviewed_as_well() -> None:
    """A plain HPA on CPU sees no lag; one with KEDA's field names is rejected."""
    hpa: dict[str, Any] = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"},
            "maxReplicas": 3,
        },
    }
    wrong = {**hpa, "spec": {**hpa["spec"], "minReplicaCount": 2}}

    assert review_policy(hpa, where="f").codes == ("lag-not-seen", "no-behavior")
    assert not review_policy(wrong, where="f").is_accepted


def test_a_file_without_a_policy_is_wrong_input() -> None:
    """The documents that were found are named."""
    with pytest.raises(WrongInput, check=lambda error: error.value == "Deployment w"):
        review_documents([workload("w", {})], where="file")
    with pytest.raises(WrongInput, check=lambda error: error.field == "document 1"):
        review_documents(["text"], where="file")
