"""What is found in a HorizontalPodAutoscaler."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.policies import (
    TARGET,
    hpa,
    scaled_object,
)

from lagbench.core.policy.review.policy_review import review_policy
from lagbench.core.policy.review.subject import KnownObjects


@pytest.mark.parametrize(("version", "is_accepted"), [("1.36", False), ("1.37", True)])
def test_an_hpa_at_zero_is_noted_where_the_cluster_takes_it(
    version: str, *, is_accepted: bool
) -> None:
    """By the version of the cluster that was asked."""
    asked = hpa(minReplicas=0, metrics=[{"type": "External", "external": SOURCE}])
    around = KnownObjects(kubernetes=version)
    found = review_policy(asked, where="file", known_objects=around)

    assert found.is_accepted is ("hpa-to-zero" in found.codes) is is_accepted


def test_an_hpa_is_reviewed_as_well() -> None:
    """A plain HPA on CPU sees no lag; one with KEDA's field names is rejected."""
    assert review_policy(hpa(), where="f").codes == ("lag-not-seen", "no-behavior")
    assert not review_policy(hpa(minReplicaCount=2), where="f").is_accepted


@pytest.mark.parametrize(
    ("manifest", "instead"),
    [
        *[(hpa(f"autoscaling/{v}"), "autoscaling/v2") for v in ("v2beta1", "v2beta2", "v99")],
        (hpa("apps/v1"), "autoscaling/v2"),
        (hpa(None), "autoscaling/v2"),
        *[({**scaled_object(), "apiVersion": v}, "keda.sh/v1alpha1") for v in ("keda.sh/v1", None)],
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


RESOURCE = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"scaleTargetRef": {"kind": "Deployment", "name": "w"}}, "spec.scaleTargetRef.apiVersion"),
        ({"scaleTargetRef": {**TARGET, "name": ""}}, "spec.scaleTargetRef.name"),
        ({"minReplicas": -1}, "spec.minReplicas"),
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
        ({"metrics": "cpu"}, "spec.metrics"),
        ({"metrics": ["cpu"]}, "spec.metrics[0]"),
        ({"metrics": [{"type": "Resource", "resource": "cpu"}]}, "spec.metrics[0].resource"),
        (
            {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": 80}}]},
            "spec.metrics[0].resource.target",
        ),
        ({"scaleTargetRef": "consumer"}, "spec.scaleTargetRef"),
        ({"behavior": {"scaleUp": {"policies": 4}}}, "spec.behavior.scaleUp.policies"),
    ],
)
def test_kubernetes_own_rules_refuse_an_hpa(spec: dict[str, Any], field: str) -> None:
    """Each is named by its field, also where a field is of another type."""
    findings = review_policy(hpa(**spec), where="f").findings

    assert {(item.level, item.field) for item in findings} == {("refused", field)}


@pytest.mark.parametrize(("metadata", "field"), [({}, "metadata.name"), ("h", "metadata")])
def test_an_hpa_without_a_name_is_refused(metadata: Any, field: str) -> None:
    """As a ScaledObject is."""
    (finding,) = review_policy({**hpa(), "metadata": metadata}, where="f").findings
    assert finding.field == field


SOURCE = {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": 0.5}}
NAMED = {**SOURCE, "describedObject": {"kind": "Service", "name": "s"}}


@pytest.mark.parametrize(
    ("metrics", "code"),
    [
        ([{"type": "Pods", "pods": SOURCE}], "not-rehearsed-here"),
        ([{"type": "Object", "object": NAMED}], "not-rehearsed-here"),
        ([{"type": "Resource", "resource": {**RESOURCE, "name": "cpus"}}], "resource-unknown"),
        ([{"type": "External", "external": SOURCE}], None),
        (None, "lag-not-seen"),
    ],
)
def test_what_of_an_hpa_is_stored(metrics: Any, code: str | None) -> None:
    """A quantity may be a number, a null counts as absent, and a resource have any name."""
    rules = {"scaleUp": {"tolerance": 0.05}}
    reviewed = review_policy(hpa(metrics=metrics, minReplicas=None, behavior=rules), where="f")
    told = {"not-rehearsed-here", "resource-unknown", "lag-not-seen"} & {*reviewed.codes}

    assert reviewed.is_accepted
    assert told == ({code} if code else set())
