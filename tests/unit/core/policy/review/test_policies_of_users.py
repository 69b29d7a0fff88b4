"""Policies as their users write them: what is found, and at which level."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.policy.review.test_findings import CPU, CRON, kafka, policy

from lagbench.core.policy.finding import Finding
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.core.policy.review.subject import PolicyContext

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
RESOURCE = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}


def hpa(version: str | None = "autoscaling/v2", **spec: Any) -> dict[str, Any]:
    """Return a good HPA with fields of its spec replaced."""
    whole = {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}
    made = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": whole}
    return made if version is None else {"apiVersion": version, **made}


def review(partitions: int | None = 12, **spec: Any) -> PolicyReview:
    """Return the review of a ScaledObject on a topic of so many partitions."""
    return review_policy(policy(**spec), where="f", context=PolicyContext(partitions=partitions))


def found(review: PolicyReview, code: str) -> Finding:
    """Return the one finding of a code."""
    (only,) = [item for item in review.findings if item.code == code]
    return only


def cron(desired: int) -> dict[str, Any]:
    """Return hours with so many pods."""
    return {**CRON, "metadata": {**CRON["metadata"], "desiredReplicas": str(desired)}}


@pytest.mark.parametrize(
    ("manifest", "instead"),
    [
        *[(hpa(f"autoscaling/{v}"), "autoscaling/v2") for v in ("v2beta1", "v2beta2", "v99")],
        (hpa("apps/v1"), "autoscaling/v2"),
        (hpa(None), "autoscaling/v2"),
        *[({**policy(), "apiVersion": v}, "keda.sh/v1alpha1") for v in ("keda.sh/v1", None)],
    ],
)
def test_a_version_that_is_not_served_is_refused(manifest: dict[str, Any], instead: str) -> None:
    """The served one is the remedy, not another object."""
    (finding,) = review_policy(manifest, where="f").findings

    assert (finding.level, finding.code, finding.instead) == ("refused", "api-version", instead)


def test_v1_is_v2_with_a_metric_on_cpu() -> None:
    """With a percentage or without one; a field of v2 alone is unknown there."""
    for spec in ({"targetCPUUtilizationPercentage": 70}, {}):
        assert review_policy(hpa("autoscaling/v1", **spec), where="f").is_accepted
    (finding,) = review_policy(hpa("autoscaling/v1", metrics=[]), where="f").findings
    assert "autoscaling/v2" in finding.instead


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"scaleTargetRef": {"kind": "Deployment", "name": "w"}}, "spec.scaleTargetRef.apiVersion"),
        ({"scaleTargetRef": {**TARGET, "name": ""}}, "spec.scaleTargetRef.name"),
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"minReplicas": 4}, "spec.maxReplicas"),
        ({"maxReplicas": 3_000_000_000}, "spec.maxReplicas"),
        ({"behavior": {"scaleUp": {"policies": []}}}, "spec.behavior.scaleUp.policies"),
        (
            {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}}},
            "spec.behavior.scaleUp.stabilizationWindowSeconds",
        ),
        ({"metrics": [{"type": "Pods"}]}, "spec.metrics[0].pods"),
        ({"metrics": [{"type": "Cpu", "resource": RESOURCE}]}, "spec.metrics[0].type"),
        (
            {"metrics": [{"type": "Resource", "resource": {**RESOURCE, "name": ""}}]},
            "spec.metrics[0].resource.name",
        ),
        (
            {
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {
                            "name": "cpu",
                            "target": {**RESOURCE["target"], "averageValue": "1"},  # type: ignore[dict-item]
                        },
                    }
                ]
            },
            "spec.metrics[0].resource.target.averageValue",
        ),
    ],
)
def test_kubernetes_own_rules_refuse_an_hpa(spec: dict[str, Any], field: str) -> None:
    """Each is named by its field."""
    assert {item.field for item in review_policy(hpa(**spec), where="f").findings} == {field}


def test_an_hpa_without_a_name_is_refused() -> None:
    """As a ScaledObject is."""
    (finding,) = review_policy({**hpa(), "metadata": {}}, where="f").findings
    assert finding.field == "metadata.name"


def test_any_name_of_a_resource_is_stored_and_never_read() -> None:
    """The pods' metrics API has cpu and memory only."""
    metric = {"type": "Resource", "resource": {**RESOURCE, "name": "cpus"}}
    reviewed = review_policy(hpa(metrics=[metric]), where="f")

    assert reviewed.is_accepted
    assert found(reviewed, "resource-unknown").level == "broken"


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


CONTAINERS = [
    {"name": "side"},
    {
        "name": "c",
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "m"}}],
        "env": [
            {"name": "PLAIN", "value": "k:9092"},
            {"name": "BUILT", "value": "$(P_HOST):9092"},
            {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "SERVERS"}}},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
    },
]
WORKLOAD = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "w"},
    "spec": {"template": {"spec": {"containers": CONTAINERS}}},
}
VALUES = {"SERVERS": "k:9092", "HOST": "k", "BAD": "PLAINTEXT://k:9092"}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": VALUES}


def from_variable(variable: str) -> dict[str, Any]:
    """Return a policy whose servers are in a variable of the second container."""
    trigger = kafka(bootstrapServersFromEnv=variable)
    del trigger["metadata"]["bootstrapServers"]
    target = {"name": "w", "envSourceContainerName": "c"}
    return policy(triggers=[trigger], scaleTargetRef=target)


@pytest.mark.parametrize(
    ("variable", "objects", "code"),
    [
        ("PLAIN", [WORKLOAD, CONFIG], None),
        ("BUILT", [WORKLOAD, CONFIG], None),
        ("KEY", [WORKLOAD, CONFIG], None),
        ("P_SERVERS", [WORKLOAD, CONFIG], None),
        ("P_BAD", [WORKLOAD, CONFIG], "server-address"),
        ("POD", [WORKLOAD, CONFIG], "operator-refuses"),  # KEDA reads no field of the pod
        ("SERVERS", [WORKLOAD, CONFIG], "operator-refuses"),
        ("PLAIN", [WORKLOAD], None),
        ("KEY", [WORKLOAD], "variable-not-known"),
        ("P_SERVERS", [WORKLOAD], "variable-not-known"),
        ("PLAIN", [], "variable-not-known"),
    ],
)
def test_variables_are_resolved_as_keda_does(
    variable: str, objects: list[dict[str, Any]], code: str | None
) -> None:
    """What is not in the file is not known, and no fault."""
    documents = [from_variable(variable), *objects]
    (reviewed,) = review_documents(documents, where="f").policies

    told = {"server-address", "operator-refuses", "variable-not-known"} & {*reviewed.codes}
    assert told == ({code} if code else set())
    assert reviewed.can_run is (code in {None, "variable-not-known"})


@pytest.mark.parametrize(
    ("metadata", "top"),
    [({}, 12), ({"partitionLimitation": "0-5"}, 6), ({"partitionLimitation": "0-5, 20"}, 6)],
)
def test_the_cap_is_that_of_the_kept_partitions(metadata: dict[str, str], top: int) -> None:
    """And of one more by KEDA's division, unless the partitions with lag are even fewer."""
    reviewed = review(maxReplicaCount=20, triggers=[kafka(**metadata)])

    assert reviewed.climb[-1] == top
    assert f"more than {top + 1} " in found(reviewed, "max-over-partitions").happens


def test_an_even_distribution_divides_the_kept_partitions() -> None:
    """12 of 16 partitions have six divisors."""
    even = kafka(partitionLimitation="0-11", ensureEvenDistributionOfPartitions="true")
    happens = found(review(16, triggers=[even]), "even-counts").happens

    assert "1, 2, 3, 4, 6, 12 replicas" in happens


def test_a_limitation_that_keeps_nothing_is_broken() -> None:
    """A reversed range is none, and KEDA's poll fails."""
    reviewed = review(triggers=[kafka(partitionLimitation="11-0")])

    assert found(reviewed, "limitation-keeps-none").level == "broken"


@pytest.mark.parametrize(
    ("ceiling", "most", "idle"), [(50, "more than the 20 ", "12 of them"), (20, None, "12 of them")]
)
def test_hours_may_ask_for_more_than_the_partitions(
    ceiling: int, most: str | None, idle: str
) -> None:
    """Of 20 pods on 8 partitions 12 are idle."""
    reviewed = review(8, maxReplicaCount=ceiling, triggers=[kafka(), cron(20)])

    assert idle in found(reviewed, "cron-over-partitions").happens
    told = [item.happens for item in reviewed.findings if item.code == "max-over-partitions"]
    assert [most in text for text in told if most] == ([True] if most else [])
    assert len(told) == (1 if most else 0)


def test_a_trigger_without_a_cap_may_ask_for_more() -> None:
    """CPU beside kafka can reach the ceiling."""
    happens = found(review(8, triggers=[kafka(), CPU]), "max-over-partitions").happens

    assert "4 replicas get none of the 8 partitions" in happens
    assert "cpu (trigger 1)" in happens


def test_hours_below_the_floor_have_no_effect() -> None:
    """One pod is asked for, and three always run."""
    reviewed = review(minReplicaCount=3, triggers=[kafka(), cron(1)])

    assert "cron-under-floor" in reviewed.codes
    assert "cron-under-floor" not in review(minReplicaCount=0, triggers=[kafka(), cron(1)]).codes


def test_hours_alone_see_no_lag() -> None:
    """There is no climb, and the hours' pods are the most."""
    reviewed = review(maxReplicaCount=50, triggers=[cron(45)])

    assert reviewed.climb == ()
    assert "at most 45 " in found(reviewed, "lag-not-seen").happens


@pytest.mark.parametrize(
    ("servers", "level", "said", "instead"),
    [
        ("kafka", "broken", "missing port", "kafka:9092"),
        ("PLAINTEXT://kafka:9093", "broken", "too many colons", "kafka:9093"),
        ("a:9092;b:9092", "broken", "too many colons", "a:9092,b:9092"),
        ("k:port", "broken", "unknown port", "k:9092"),
        ("k:99999", "broken", "invalid port", "k:9092"),
        ("k:9092,b", "warning", "missing port", "k:9092,b:9092"),
        ("::1:9092", "broken", "too many colons", "HOST:9092"),
    ],
)
def test_servers_that_cannot_be_dialled_are_named(
    servers: str, level: str, said: str, instead: str
) -> None:
    """With the form that can be."""
    finding = found(review(triggers=[kafka(bootstrapServers=servers)]), "server-address")

    assert (finding.level, finding.instead) == (level, instead)
    assert said in finding.happens


@pytest.mark.parametrize("servers", ["k:9092", "a:1, b:65535", "[::1]:9092", "10.0.0.1:9092"])
def test_servers_that_can_be_dialled_are_not(servers: str) -> None:
    """A list, addresses of both versions of IP."""
    assert "server-address" not in review(triggers=[kafka(bootstrapServers=servers)]).codes


@pytest.mark.parametrize("topic", ["orders,payments", "orders-.*", "a b", "a*", "x" * 250, ".."])
def test_a_topic_that_cannot_exist_is_named(topic: str) -> None:
    """KEDA reads one topic for each trigger."""
    assert found(review(triggers=[kafka(topic=topic)]), "topic-impossible").level == "broken"


@pytest.mark.parametrize("is_hpa_first", [True, False])
def test_two_autoscalers_of_one_workload_are_named(is_hpa_first: bool) -> None:
    """In either order; the webhook refuses the second of one order only."""
    documents = [hpa(), policy()] if is_hpa_first else [policy(), hpa()]
    reviews = review_documents(documents, where="f").policies

    assert ["other-autoscaler" in item.codes for item in reviews] == [False, True]
    assert not reviews[1].can_run


@pytest.mark.parametrize(
    ("activation", "floor", "is_told"), [("3000", 0, True), ("500", 0, False), ("3000", 2, False)]
)
def test_an_activation_above_the_threshold_lets_messages_wait(
    activation: str, floor: int, is_told: bool
) -> None:
    """501 to 3,000 messages would need two pods or more, and start none."""
    trigger = kafka(activationLagThreshold=activation)
    reviewed = review(minReplicaCount=floor, triggers=[trigger])

    assert ("activation-over-threshold" in reviewed.codes) is is_told
    if is_told:
        assert "501 to 3,000 " in found(reviewed, "activation-over-threshold").happens


@pytest.mark.parametrize(
    ("query", "is_told"),
    [
        ('kafka_consumergroup_lag{consumergroup="g"}', True),
        ("sum by (topic) (a)", True),
        ("sum(a) by (topic)", True),
        ("rate(a[5m])", True),
        ("a / b", True),
        ("topk(3, a)", True),
        ("sum(a)", False),
        ('sum by (topic) (a{topic="t"})', False),
        ("max(a) or vector(0)", False),
        ("ceil(sum(rate(a[5m])) / 2) > 1", False),
        ("scalar(a)", False),
    ],
)
def test_a_query_of_many_series_is_named(query: str, is_told: bool) -> None:
    """KEDA fails with more than one element."""
    metadata = {"serverAddress": "http://p:9090", "query": query, "threshold": "5"}
    reviewed = review(triggers=[{"type": "prometheus", "metadata": metadata}])

    assert ("many-series" in reviewed.codes) is is_told


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"country": False}}, "metadata.labels.country"),
        ({"annotations": {"tier": True}}, "metadata.annotations.tier"),
    ],
)
def test_a_boolean_is_no_text(metadata: dict[str, Any], field: str) -> None:
    """The quoted form is the remedy, also in an HPA and in a trigger's metadata."""
    for manifest in (hpa(), policy()):
        named = {**manifest, "metadata": {**manifest["metadata"], **metadata}}
        (finding,) = review_policy(named, where="f").findings
        assert finding.field == field
        assert "in quotes" in finding.instead
    trigger = kafka()
    trigger["metadata"]["tls"] = False
    (finding,) = review(triggers=[trigger]).findings
    assert (finding.field, finding.level) == ("spec.triggers[0].metadata.tls", "refused")
    assert '"false" in quotes' in finding.instead
