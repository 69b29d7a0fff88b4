"""What a review makes of the facts of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.policy.review.cluster_facts import ClusterFacts
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview, review_policy
from lagbench.errors import WrongInput

PLACE: tuple[str, str] = ("context:prod", "orders")

CPU = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}


def workload(requests: dict[str, str] | None = None, **container: Any) -> dict[str, Any]:
    """Return the target of ``policy()``."""
    containers = [{"name": "main", "resources": {"requests": requests or {}}, **container}]
    spec = {"template": {"spec": {"containers": containers}}}
    return {"kind": "Deployment", "metadata": {"name": "w"}, "spec": spec}


def review(facts: ClusterFacts, *documents: dict[str, Any]) -> PolicyReview:
    """Return the review of the file's last policy."""
    return review_documents(documents, where="file", facts=facts).policies[-1]


def test_a_scaled_object_of_the_cluster_has_the_target() -> None:
    """The refusal names it; a policy of its name replaces it."""
    facts = ClusterFacts(*PLACE, scaled_objects=(policy("theirs"),))

    refused, update = review(facts, policy()), review(facts, policy("theirs"))

    assert "'theirs'" in refused.findings[0].happens
    assert update.is_accepted


def test_what_the_file_replaces_is_in_nobodys_way() -> None:
    """The file's first policy moves the stored one to another target."""
    facts = ClusterFacts(*PLACE, scaled_objects=(policy("theirs"),))
    moved = policy("theirs", scaleTargetRef={"name": "other"})

    assert review(facts, moved, policy()).is_accepted


def test_an_hpa_of_the_cluster_has_the_target() -> None:
    """KEDA's own of the same ScaledObject does not count."""
    hpa: dict[str, Any] = {
        "metadata": {"name": "theirs"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}},
    }
    owner = {"ownerReferences": [{"kind": "ScaledObject", "name": "so"}]}
    own = {**hpa, "metadata": {"name": "theirs", **owner}}

    refused = review(ClusterFacts(*PLACE, hpas=(hpa,)), policy())

    assert refused.refused_by == "webhook"
    assert review(ClusterFacts(*PLACE, hpas=(own,)), policy()).is_accepted


def test_a_missing_target_is_reported() -> None:
    """The webhook stores it anyway, unless a trigger needs the target's requests."""
    facts = ClusterFacts(*PLACE, workloads={("Deployment", "w"): None})

    stored, refused = review(facts, policy()), review(facts, policy(triggers=[CPU]))

    assert (stored.is_accepted, stored.can_run) == (True, False)
    assert "target-missing" in stored.codes
    assert (refused.is_accepted, refused.codes) == (False, ("target-missing",))


def test_requests_of_the_target_and_defaults_decide() -> None:
    """A cpu trigger needs a request, of the container or of a LimitRange."""
    limit = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
    limit_range = {"kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": limit}
    bare: dict[Any, Any] = {("Deployment", "w"): workload()}
    wanted = policy(triggers=[CPU])

    assert not review(ClusterFacts(*PLACE, workloads=bare), wanted).is_accepted
    for facts in (
        ClusterFacts(*PLACE, workloads={("Deployment", "w"): workload({"cpu": "1"})}),
        ClusterFacts(*PLACE, workloads=bare, limit_ranges=(limit_range,)),
    ):
        assert review(facts, wanted).is_accepted


def test_variables_of_the_target_are_read() -> None:
    """A parameter from the environment has the value of the cluster's workload, if it is read."""
    env = [{"name": "SERVERS", "value": "kafka:9092"}]
    facts = ClusterFacts(*PLACE, workloads={("Deployment", "w"): workload(env=env)})
    metadata = {"bootstrapServersFromEnv": "SERVERS", "consumerGroup": "g", "topic": "t"}
    wanted = policy(triggers=[{"type": "kafka", "metadata": metadata}])

    other = [{"name": "OTHER", "value": "kafka:9092"}]
    lacks = ClusterFacts(*PLACE, workloads={("Deployment", "w"): workload(env=other)})

    assert "variable-not-known" not in review(facts, wanted).codes
    assert not review(lacks, wanted).can_run
    assert "variable-not-known" in review(ClusterFacts(*PLACE), wanted).codes


@pytest.mark.parametrize("is_there", [True, False])
def test_a_login_of_the_cluster_is_known(is_there: bool) -> None:
    """Without it KEDA stores the policy, and never gets ready."""
    facts = ClusterFacts(*PLACE, authentications={("TriggerAuthentication", "login"): is_there})
    trigger = {"type": "kafka", "metadata": KAFKA, "authenticationRef": {"name": "login"}}

    found = review(facts, policy(triggers=[trigger]))

    assert found.is_accepted
    assert ("login-missing" in found.codes) == (not is_there)
    assert "login-not-in-file" not in found.codes


def test_a_kind_that_is_not_served_is_refused() -> None:
    """Kinds of the bench's few are not judged where they are not known."""
    target = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "w"}
    wanted = policy(scaleTargetRef=target)
    served = frozenset({("argoproj.io/v1alpha1", "Rollout")})

    assert not review(ClusterFacts(*PLACE, kinds=frozenset()), wanted).is_accepted
    assert review(ClusterFacts(*PLACE, kinds=served), wanted).is_accepted
    assert review(ClusterFacts(*PLACE), wanted).is_accepted


def test_a_policy_of_another_namespace_is_not_judged() -> None:
    """The facts say nothing of it; without a namespace it goes where they are from."""
    facts = ClusterFacts(*PLACE, scaled_objects=(policy("theirs"),))

    with pytest.raises(WrongInput, check=lambda error: error.value == "lagbench"):
        review(facts, policy(metadata={"namespace": "lagbench"}))
    assert not review(facts, policy(metadata={"namespace": "orders"})).is_accepted


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


def review_of_refusals(*policies: dict[str, Any]) -> list[PolicyReview]:
    """Return the reviews of a file of these policies."""
    return list(review_documents(policies, where="file").policies)


def test_a_refused_policy_is_in_nobodys_way() -> None:
    """What is not stored does not take the target."""
    found = review_of_refusals(policy("other", idleReplicaCount=50), policy())

    assert [item.is_accepted for item in found] == [False, True]


def test_what_the_webhook_cannot_read_is_named() -> None:
    """A count beyond int32 passes the schema; the finding names the field, not the kind."""
    (found,) = review_of_refusals(policy(maxReplicaCount=3_000_000_000))

    (finding,) = found.findings
    assert (finding.code, finding.field) == ("schema", "spec.maxReplicaCount")
    assert finding.instead == "int32"


def test_an_annotation_of_another_type_is_named() -> None:
    """A pause without quotes is a truth value."""
    (found,) = review_of_refusals(
        policy(metadata={"annotations": {"autoscaling.keda.sh/paused": True}})
    )

    (finding,) = found.findings
    assert finding.field == "metadata.annotations[autoscaling.keda.sh/paused]"
    assert finding.instead.startswith('"true" in quotes')


def test_a_manifest_copied_out_of_the_cluster_is_reported() -> None:
    """The fields of the cluster are named, and the rest is checked as well."""
    exported = policy(metadata={"resourceVersion": "12", "uid": "a", "managedFields": [{}]})
    (found,) = review_of_refusals({**exported, "status": {"hpaName": "h"}})

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
    (found,) = review_of_refusals(policy(metadata={"finalizers": ["keep"]}))

    (finding,) = [item for item in found.findings if item.code == "finalizer-name"]
    assert found.is_accepted
    assert (finding.field, finding.value) == ("metadata.finalizers", "keep")


def review_of_plain_hpa(**spec: Any) -> PolicyReview:
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
    found = review_of_plain_hpa(metrics=[{"type": kind, kind.lower(): {**source, **described}}])

    assert found.is_accepted
    assert "not-rehearsed-here" in found.codes
    assert "lag-not-seen" not in found.codes


def test_a_null_counts_as_absent() -> None:
    """The API server drops it, and minReplicas is 1."""
    assert review_of_plain_hpa(minReplicas=None, metrics=None).is_accepted


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
    (found,) = review_of_plain_hpa(**spec).findings

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
    found = review_of_plain_hpa(
        metrics=[{"type": "External", "external": external}],
        behavior={"scaleUp": {"tolerance": 0.05}},
    )

    assert found.is_accepted
