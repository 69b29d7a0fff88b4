"""A plain HorizontalPodAutoscaler: what the API server takes, and what is not rehearsed here."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.policy.review.policy_review import PolicyReview, review_policy


def review(**spec: Any) -> PolicyReview:
    """Return the review of an HPA with these fields in its spec."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}
    hpa = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, **spec},
    }
    return review_policy(hpa, where="file")


@pytest.mark.parametrize("kind", ["Pods", "Object"])
def test_a_metric_that_the_bench_cannot_read_is_accepted_by_kubernetes(kind: str) -> None:
    """It is no error of the policy, and nothing says that the policy sees no lag."""
    source = {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    described = {"describedObject": {"kind": "Service", "name": "s"}} if kind == "Object" else {}
    found = review(metrics=[{"type": kind, kind.lower(): {**source, **described}}])

    assert found.is_accepted
    assert "not-rehearsed-here" in found.codes
    assert "lag-not-seen" not in found.codes


def test_a_null_counts_as_absent() -> None:
    """The API server drops it, and minReplicas is 1."""
    assert review(minReplicas=None, metrics=None).is_accepted


@pytest.mark.parametrize(
    ("spec", "field"),
    [
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
def test_a_field_of_another_type_is_named(spec: dict[str, Any], field: str) -> None:
    """The API server rejects it; the review does not end in an error of its own."""
    (found,) = review(**spec).findings

    assert (found.level, found.field) == ("refused", field)


def test_metadata_that_is_no_object_is_rejected() -> None:
    """A name is where an object with a name belongs."""
    manifest = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": "consumer",
        "spec": {},
    }

    (found,) = review_policy(manifest, where="file").findings

    assert found.field == "metadata"


def test_a_quantity_may_be_a_number() -> None:
    """The API server reads 0.5 as 500m, and a tolerance of 0.05 without quotes."""
    target = {"type": "AverageValue", "averageValue": 0.5}
    external = {"metric": {"name": "m"}, "target": target}
    found = review(
        metrics=[{"type": "External", "external": external}],
        behavior={"scaleUp": {"tolerance": 0.05}},
    )

    assert found.is_accepted
