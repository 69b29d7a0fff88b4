"""What a review makes of the facts of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.policy.review.test_refusals import KAFKA, policy

from lagbench.core.policy.review.cluster_facts import ClusterFacts
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview
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
