"""What a review says of a policy that is rejected, or stored with advice."""

from __future__ import annotations

from typing import Any

from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview

KAFKA = {"bootstrapServers": "kafka:9092", "consumerGroup": "g", "topic": "t"}


def policy(name: str = "so", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a good ScaledObject with fields of metadata and spec replaced."""
    good = {"scaleTargetRef": {"name": "w"}, "triggers": [{"type": "kafka", "metadata": KAFKA}]}
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"minReplicaCount": 1, **good, **spec},
    }


def review(*policies: dict[str, Any]) -> list[PolicyReview]:
    """Return the reviews of a file of these policies."""
    return list(review_documents(policies, where="file").policies)


def test_a_refused_policy_is_in_nobodys_way() -> None:
    """What is not stored does not take the target."""
    found = review(policy("other", idleReplicaCount=50), policy())

    assert [item.is_accepted for item in found] == [False, True]


def test_what_the_webhook_cannot_read_is_named() -> None:
    """A count beyond int32 passes the schema; the finding names the field, not the kind."""
    (found,) = review(policy(maxReplicaCount=3_000_000_000))

    (finding,) = found.findings
    assert (finding.code, finding.field) == ("schema", "spec.maxReplicaCount")
    assert finding.instead == "int32"


def test_an_annotation_of_another_type_is_named() -> None:
    """A pause without quotes is a truth value."""
    (found,) = review(policy(metadata={"annotations": {"autoscaling.keda.sh/paused": True}}))

    (finding,) = found.findings
    assert finding.field == "metadata.annotations[autoscaling.keda.sh/paused]"
    assert finding.instead.startswith('"true" in quotes')


def test_a_manifest_copied_out_of_the_cluster_is_reported() -> None:
    """The fields of the cluster are named, and the rest is checked as well."""
    exported = policy(metadata={"resourceVersion": "12", "uid": "a", "managedFields": [{}]})
    (found,) = review({**exported, "status": {"hpaName": "h"}})

    copied = {item.field: item.level for item in found.findings if item.code == "copied-out"}
    assert copied == {
        "metadata.resourceVersion": "refused",
        "metadata.managedFields": "note",
        "metadata.uid": "note",
        "status": "note",
    }
    assert not found.is_accepted
    assert "threshold-default" in found.codes


def test_advice_on_a_finalizer_is_passed_on() -> None:
    """The API server stores it and warns."""
    (found,) = review(policy(metadata={"finalizers": ["keep"]}))

    (finding,) = [item for item in found.findings if item.code == "finalizer-name"]
    assert found.is_accepted
    assert (finding.field, finding.value) == ("metadata.finalizers", "keep")
