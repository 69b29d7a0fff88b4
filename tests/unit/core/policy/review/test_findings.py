"""What is found in a policy: each code where it belongs, and not where it does not."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.policies import (
    CPU,
    EXTERNAL,
    LAG_SCALER,
    behavior,
    composite,
    cron,
    hpa,
    kafka,
    prometheus,
    scaled_object,
)

from lagbench.core.hpa.controller_flags import KUBERNETES_ANNOTATION
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY
from lagbench.core.keda.object.scaled_object_spec import PAUSED
from lagbench.core.policy.finding import Finding
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.core.policy.review.subject import KnownObjects, PolicyContext

CASES = Path(__file__).parents[4] / "data" / "keda_webhook_cases.json.gz"
EVEN = {"ensureEvenDistributionOfPartitions": "true"}
IDLE = {"allowIdleConsumers": "true"}


def review(
    annotations: dict[str, str] | None = None, context: PolicyContext | None = None, **spec: Any
) -> PolicyReview:
    """Return the review of a good policy with these fields, by default on 12 partitions."""
    around = context or PolicyContext(partitions=12)
    return review_policy(scaled_object(annotations, **spec), where="file", context=around)


def found(review: PolicyReview, code: str) -> Finding:
    """Return the one finding of a code."""
    (only,) = [item for item in review.findings if item.code == code]
    return only


def lag_scaler(**metadata: str) -> dict[str, Any]:
    """Return a trigger that calls the lag scaler, with some parameters more."""
    return {**LAG_SCALER, "metadata": {**LAG_SCALER["metadata"], **metadata}}  # type: ignore[dict-item]


def window(seconds: int) -> dict[str, int]:
    """Return the rules of one direction with a window."""
    return {"stabilizationWindowSeconds": seconds}


def percent(value: int) -> dict[str, Any]:
    """Return ``advanced`` with a scale-up of so many percent per 15 s."""
    rule = {"type": "Percent", "value": value, "periodSeconds": 15}
    return behavior(scaleUp={"policies": [rule]})


def activation(floor: int, records: str) -> dict[str, Any]:
    """Return the spec of a trigger that is active above so many records."""
    return {"minReplicaCount": floor, "triggers": [kafka(activationLagThreshold=records)]}


def test_a_plain_policy_warns_of_nothing() -> None:
    """Only the note on the tolerance at the cap is left."""
    assert review().codes == ("cap-sticks",)
    assert review().climb == (2, 6, 12)


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
        ("up-window-waits", "note", {"advanced": behavior(scaleUp=window(300))}),
        ("down-window-short", "warning", {"advanced": behavior(scaleDown=window(0))}),
        ("tolerance-of-object", "note", {"advanced": behavior(scaleUp={"tolerance": "0.05"})}),
        (
            "tolerance-ignored",
            "warning",
            {
                "annotations": {KUBERNETES_ANNOTATION: "1.34"},
                "advanced": behavior(scaleUp={"tolerance": "0.05"}),
            },
        ),
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
        ("even-never-zero", "note", {"triggers": [kafka(**EVEN)]}),
        ("idle-consumers-ignored", "warning", {"triggers": [kafka(**EVEN, **IDLE)]}),
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
        ("failing-trigger-blocks", "warning", {"triggers": [kafka(), cron()]}),
        ("source-down-at-creation", "note", {"triggers": [kafka(), CPU]}),
        ("composite-negative", "warning", composite("a - b")),
        ("composite-targets", "note", composite("a + b")),
        ("lag-not-seen", "warning", {"triggers": [CPU]}),
        ("request-not-checked", "note", {"triggers": [kafka(), CPU]}),
        ("timezone-unknown", "broken", {"triggers": [cron(timezone="Mars/Base")]}),
        ("cron-over-max", "warning", {"triggers": [cron()], "maxReplicaCount": 4}),
        ("sustain-waits", "note", {"triggers": [LAG_SCALER]}),
        ("small-backlog-sleeps", "warning", {"triggers": [LAG_SCALER], "minReplicaCount": 0}),
        ("small-backlog-sleeps", "warning", {"triggers": [LAG_SCALER], "idleReplicaCount": 0}),
        ("lag-scaler-refuses", "broken", {"triggers": [lag_scaler(windowSize="2")]}),
        ("max-over-partitions", "warning", {"triggers": [kafka(), CPU], "maxReplicaCount": 24}),
        ("limitation-keeps-none", "broken", {"triggers": [kafka(partitionLimitation="11-0")]}),
        ("cron-under-floor", "warning", {"triggers": [kafka(), cron(1)]}),
        ("cron-by-clock", "note", {"triggers": [kafka(), cron(3)]}),
        ("resource-holds-one-way", "warning", {"triggers": [kafka(), CPU]}),
        ("resource-holds-one-way", "warning", {"triggers": [EXTERNAL, CPU]}),
        ("percent-is-added", "note", {"advanced": percent(150)}),
        ("activation-over-threshold", "warning", activation(0, "3000")),
        ("target-not-scalable", "broken", {"scaleTargetRef": {"name": "w", "kind": "DaemonSet"}}),
        ("operator-refuses", "broken", {"triggers": [kafka(lagThreshold="0")]}),
        ("hpa-refused", "broken", {"advanced": behavior(scaleDown=window(3601))}),
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


HOURS = {"triggers": [kafka(), cron(20)]}
REACHES = {"triggers": [{**kafka(lagThreshold="6000"), "name": "lag"}]}
OF_ITS_TARGET = {**REACHES, "advanced": {"scalingModifiers": {"formula": "lag", "target": "500"}}}


@pytest.mark.parametrize(
    ("code", "spec"),
    [
        # A pod that always runs, or a kafka trigger, reads a backlog below the threshold.
        ("small-backlog-sleeps", {"triggers": [LAG_SCALER], "minReplicaCount": 1}),
        ("small-backlog-sleeps", {"triggers": [LAG_SCALER, kafka()], "minReplicaCount": 0}),
        # Only a subtraction whose result goes to the HPA is warned of.
        ("composite-negative", composite("max(a - b, 0)")),
        ("composite-negative", composite("abs(a - b)")),
        ("composite-negative", composite("a - b > 0 ? a : b")),
        ("composite-negative", composite("a + b")),
        ("composite-capped", OF_ITS_TARGET),
        ("percent-is-added", {"advanced": percent(100)}),
        ("cron-under-floor", {"triggers": [kafka(), cron(1)], "minReplicaCount": 0}),
        ("activation-over-threshold", activation(0, "500")),
        ("activation-over-threshold", activation(2, "3000")),
        ("resource-holds-one-way", {
            "triggers": [kafka(), CPU], "fallback": {"failureThreshold": 0, "replicas": 6}
        }),
        ("cap-sticks", {"triggers": [{**kafka(), "metricType": "Value"}], "maxReplicaCount": 24}),
        *[
            ("server-address", {"triggers": [kafka(bootstrapServers=servers)]})
            for servers in ("k:9092", "a:1, b:65535", "[::1]:9092", "10.0.0.1:9092")
        ],
        *[
            ("many-series", {"triggers": [prometheus(query)]})
            for query in (
                "sum(a)",
                'sum by (topic) (a{topic="t"})',
                "max(a) or vector(0)",
                "ceil(sum(rate(a[5m])) / 2) > 1",
                "scalar(a)",
            )
        ],
    ],
)  # fmt: skip
def test_a_code_stays_away(code: str, spec: dict[str, Any]) -> None:
    """Something beside it makes it untrue."""
    assert code not in review(**spec).codes


@pytest.mark.parametrize(
    ("code", "spec", "said"),
    [
        ("max-over-partitions", {"triggers": [kafka(partitionLimitation="0-5")]}, "than 7 "),
        ("max-over-partitions", {"triggers": [kafka(partitionLimitation="0-5, 20")]}, "than 7 "),
        ("max-over-partitions", {
            "triggers": [kafka(), CPU], "maxReplicaCount": 16
        }, "4 replicas get none of the 12 partitions"),
        ("max-over-partitions", {
            "triggers": [{**kafka(), "metricType": "Value"}], "maxReplicaCount": 48
        }, "36 replicas"),
        ("max-over-partitions", {**HOURS, "maxReplicaCount": 50}, "than the 20 "),
        ("cron-over-partitions", {**HOURS, "maxReplicaCount": 20}, "8 of them"),
        ("even-counts", {"triggers": [kafka(partitionLimitation="0-5", **EVEN)]}, "1, 2, 3, 6 "),
        ("lag-not-seen", {"triggers": [cron(45)], "maxReplicaCount": 50}, "at most 45 "),
        ("activation-over-threshold", activation(0, "3000"), "501 to 3,000 "),
        ("percent-is-added", {"advanced": percent(200)}, "3 times"),
        ("percent-is-added", {"advanced": percent(150)}, "2.5 times"),
        ("composite-capped", {
            "triggers": [{**kafka(lagThreshold="5"), "name": "lag"}],
            "advanced": {"scalingModifiers": {"formula": "lag", "target": "11250"}},
        }, "more than 1 replicas"),
    ],
)  # fmt: skip
def test_what_a_finding_reckons_with(code: str, spec: dict[str, Any], said: str) -> None:
    """The number that is said is that of the partitions, the hours or the trigger."""
    assert said in found(review(**spec), code).happens


@pytest.mark.parametrize(
    ("annotations", "code"),
    [
        ({PAUSED: "true"}, "scaling-held"),
        ({PAUSED: "yes"}, "annotation-not-boolean"),
        ({"autoscaling.keda.sh/paused-scale-in": "true"}, "scaling-held"),
        ({"autoscaling.keda.sh/paused-replicas": "3"}, "scaling-held"),
        ({"autoscaling.keda.sh/paused-replicas": "abc"}, "paused-replicas"),
        ({SCALED_BY: CONTROLLER, PAUSED: "true"}, "handed-over"),
        ({SCALED_BY: CONTROLLER}, "two-controllers"),
        ({"lagbench.io/hpa-sync-seconds": "5"}, "own-controller-only"),
        ({KUBERNETES_ANNOTATION: "1.37"}, "kubernetes-version"),
        ({"lagbench.io/cron-windows": "soon"}, "cron-windows"),
    ],
)
def test_annotations_are_named(annotations: dict[str, str], code: str) -> None:
    """What stops scaling, or is read as if it did; a pause for KEDA alone holds nothing."""
    codes = review(annotations).codes

    assert code in codes
    assert ("scaling-held" in codes) is (code == "scaling-held")


@pytest.mark.parametrize(
    ("named", "cluster", "up", "codes"),
    [
        (None, None, "0.05", {"tolerance-of-object"}),
        ("1.34", None, "0.05", {"tolerance-ignored", "kubernetes-version", "cap-sticks"}),
        ("1.35", None, "0.05", {"tolerance-of-object", "kubernetes-version"}),
        ("1.35", None, "0.1", {"tolerance-of-object", "kubernetes-version", "cap-sticks"}),
        (None, "1.37", "0.05", {"tolerance-of-object"}),
        ("1.37", "1.34", "0.05", {"tolerance-ignored", "kubernetes-differs", "cap-sticks"}),
    ],
)
def test_the_version_decides_on_the_tolerance_of_an_object(
    named: str | None, cluster: str | None, up: str, codes: set[str]
) -> None:
    """That of the cluster if one was asked, else the annotation's: 12 / 11 is 9 % too many."""
    annotations = {} if named is None else {KUBERNETES_ANNOTATION: named}
    reviewed = review_policy(
        scaled_object(annotations, advanced=behavior(scaleUp={"tolerance": up})),
        where="file",
        context=PolicyContext(partitions=12),
        known_objects=KnownObjects(kubernetes=cluster),
    )
    about = {"tolerance-ignored", "tolerance-of-object", "cap-sticks", "kubernetes-version"}

    assert {*reviewed.codes} & {*about, "kubernetes-differs"} == codes


def test_a_refusal_hides_no_other_problem() -> None:
    """A misspelt parameter is the first warning, also beside a refused field; cron is read, too."""
    misspelt, wrong = kafka(lagTreshold="9"), cron(3)
    wrong["metadata"]["start"] = "55 8 * *"
    field = "spec.triggers[0].metadata.lagTreshold"

    assert [one.field for one in review(maxReplicas=50, triggers=[misspelt, wrong]).findings] == [
        "spec.maxReplicas",
        "spec.triggers[1].metadata.start",
        field,
    ]
    assert review(triggers=[misspelt], cooldownPeriod=60).findings[0].field == field


def test_the_right_name_is_told() -> None:
    """Of fields of an HPA, and of a mechanism that has another name in Kafka."""
    fields = review(minReplicas=3, maxReplicas=50).findings

    assert {item.instead for item in fields} == {"minReplicaCount", "maxReplicaCount"}
    assert review(triggers=[kafka(sasl="plain")]).findings[0].instead == "sasl: plaintext"


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
    for row in json.loads(gzip.decompress(CASES.read_bytes()))["rows"]:
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


@pytest.mark.parametrize(
    "spec",
    [
        {"maxReplicaCount": 12.0},
        {"minReplicaCount": 3.0, "idleReplicaCount": 0.0},
        {"pollingInterval": 3e1, "cooldownPeriod": 60.0, "minReplicaCount": 0.0},
        {"fallback": {"failureThreshold": 0.0, "replicas": 6.0}},
        {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": {
            "stabilizationWindowSeconds": 0.0,
            "policies": [{"type": "Pods", "value": 4.0, "periodSeconds": 15.0}],
        }}}}},
    ],
)  # fmt: skip
def test_a_whole_number_may_have_a_point(spec: dict[str, Any]) -> None:
    """JSON has one kind of number."""
    assert review(**spec).can_run
    assert review_policy(hpa(maxReplicas=10.0, minReplicas=1.0), where="f").can_run


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"country": False}}, "metadata.labels.country"),
        ({"annotations": {"tier": True}}, "metadata.annotations.tier"),
    ],
)
def test_a_boolean_is_no_text(metadata: dict[str, Any], field: str) -> None:
    """The quoted form is the remedy, also in an HPA and in a trigger's metadata."""
    for manifest in (hpa(), scaled_object()):
        named = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
        (finding,) = review_policy(named, where="f").findings
        assert finding.field == field
        assert "in quotes" in finding.instead
    trigger = kafka()
    trigger["metadata"]["tls"] = False
    (finding,) = review(triggers=[trigger]).findings
    assert (finding.field, finding.level) == ("spec.triggers[0].metadata.tls", "refused")
    assert '"false" in quotes' in finding.instead


@pytest.mark.parametrize(
    ("kind", "version", "level"),
    [
        ("external-push", "1.37", "note"),
        ("external-push", "1.36", "warning"),  # the HPA is written, not synced
        ("external", "1.37", "warning"),  # KEDA does not read the stream
    ],
)
def test_sync_on_step_needs_a_push_trigger_and_kubernetes_1_37(
    kind: str, version: str, level: str
) -> None:
    """What is missing for it is a warning."""
    trigger = {**lag_scaler(syncOnStep="true"), "type": kind}
    reviewed = review({KUBERNETES_ANNOTATION: version}, triggers=[trigger])

    assert found(reviewed, "sync-on-step").level == level
