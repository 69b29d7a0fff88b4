"""What a review makes of a file's other documents, and of the facts of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.policies import CPU, hpa, kafka, scaled_object

from lagbench.core.policy.review.cluster_facts import ClusterFacts
from lagbench.core.policy.review.policy_file import review_documents
from lagbench.core.policy.review.policy_review import PolicyReview
from lagbench.core.policy.review.subject import PolicyContext
from lagbench.errors import WrongInput

PLACE: tuple[str, str] = ("context:prod", "orders")
LOGIN = {"authenticationRef": {"name": "login"}}


def named(name: str, **spec: Any) -> dict[str, Any]:
    """Return a good ScaledObject of another name."""
    return scaled_object(metadata={"name": name}, **spec)


def review(*documents: Any, facts: ClusterFacts | None = None) -> PolicyReview:
    """Return the review of the file's last policy."""
    return review_documents(documents, where="file", facts=facts).policies[-1]


def workload(
    requests: dict[str, str] | None = None, name: str = "w", **container: Any
) -> dict[str, Any]:
    """Return a Deployment with one container, by default the target."""
    containers = [{"name": "main", "resources": {"requests": requests or {}}, **container}]
    spec = {"template": {"spec": {"containers": containers}}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_other_documents_of_the_file_are_looked_at() -> None:
    """The target's requests are checked when it is in the file, else its absence is told."""
    wanted = scaled_object(triggers=[kafka(), CPU])
    told = {"request-not-checked", "request-missing", "target-missing"}

    assert {*review(wanted).codes} & told == {"request-not-checked"}
    assert {*review(workload(), wanted).codes} & told == {"request-missing"}
    assert "target-missing" in review(workload({"cpu": "1"}, "other"), wanted).codes
    assert not {*review(workload({"cpu": "1"}), wanted).codes} & told


def test_two_policies_on_one_target_are_refused() -> None:
    """Applied from top to bottom the second meets the first, unless that was refused itself."""
    second = review(scaled_object(), named("other"))

    assert (second.is_accepted, second.refused_by) == (False, "webhook")
    assert review(named("other", idleReplicaCount=50), scaled_object()).is_accepted


@pytest.mark.parametrize("documents", [(hpa(), scaled_object()), (scaled_object(), hpa())])
def test_two_autoscalers_of_one_workload_are_named(documents: Any) -> None:
    """In either order; the webhook refuses the second of one order only."""
    reviews = review_documents(documents, where="f").policies

    assert ["other-autoscaler" in item.codes for item in reviews] == [False, True]
    assert not reviews[1].can_run


def test_a_login_that_is_not_in_the_file_is_noted() -> None:
    """A TriggerAuthentication of the file answers the reference."""
    asked = scaled_object(triggers=[{**kafka(), **LOGIN}])
    login = {"kind": "TriggerAuthentication", "metadata": {"name": "login"}}

    assert "login-not-in-file" in review(asked).codes
    assert "login-not-in-file" not in review(asked, login).codes


def test_a_file_without_a_policy_is_wrong_input() -> None:
    """The documents that were found are named."""
    with pytest.raises(WrongInput, check=lambda error: error.value == "Deployment w"):
        review(workload())
    with pytest.raises(WrongInput, check=lambda error: error.field == "document 1"):
        review("text")


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
    trigger = kafka(bootstrapServers=None, bootstrapServersFromEnv=variable)
    target = {"name": "w", "envSourceContainerName": "c"}
    return scaled_object(triggers=[trigger], scaleTargetRef=target)


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


def deployment(**pod: Any) -> dict[str, Any]:
    """Return the target of the good policy with these fields of its pods."""
    spec = {"containers": [{"name": "c"}], **pod}
    return {"kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": {"spec": spec}}}


def grace(shutdown: float | None, **pod: Any) -> list[str]:
    """Return what is found of the grace period of such pods, which take so long to shut down."""
    context = PolicyContext(shutdown_seconds=shutdown)
    file = review_documents([deployment(**pod), scaled_object()], where="file", context=context)
    return [item.instead for item in file.policies[0].findings if item.code == "grace-period-short"]


@pytest.mark.parametrize(
    ("pod", "shutdown", "instead"),
    [
        ({}, 45.0, "45 or more"),
        ({"terminationGracePeriodSeconds": 40}, 40.5, "41 or more"),
        (
            {"containers": [{"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 20}}}}]},
            15.0,
            "35 or more",
        ),
        (
            {"containers": [{"name": "c", "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}]},
            None,
            "31 or more",
        ),
    ],
)
def test_a_grace_period_below_the_shutdown_time_is_reported(
    pod: dict[str, Any], shutdown: float | None, instead: str
) -> None:
    """The default of 30 s counts, and a preStop sleep is taken off the same time."""
    assert grace(shutdown, **pod) == [instead]


def test_a_grace_period_that_suffices_or_an_unknown_shutdown_time_is_not_reported() -> None:
    """Exactly enough is enough."""
    assert not grace(40.0, terminationGracePeriodSeconds=40)
    assert not grace(None, terminationGracePeriodSeconds=1)


def test_a_scaled_object_of_the_cluster_has_the_target() -> None:
    """The refusal names it; a policy of its name replaces it."""
    facts = ClusterFacts(*PLACE, scaled_objects=(named("theirs"),))

    refused, update = review(scaled_object(), facts=facts), review(named("theirs"), facts=facts)

    assert "'theirs'" in refused.findings[0].happens
    assert update.is_accepted


def test_what_the_file_replaces_is_in_nobodys_way() -> None:
    """The file's first policy moves the stored one to another target."""
    facts = ClusterFacts(*PLACE, scaled_objects=(named("theirs"),))
    moved = named("theirs", scaleTargetRef={"name": "other"})

    assert review(moved, scaled_object(), facts=facts).is_accepted


def test_an_hpa_of_the_cluster_has_the_target() -> None:
    """KEDA's own of the same ScaledObject does not count."""
    hpa: dict[str, Any] = {
        "metadata": {"name": "theirs"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}},
    }
    owner = {"ownerReferences": [{"kind": "ScaledObject", "name": "so"}]}
    own = {**hpa, "metadata": {"name": "theirs", **owner}}

    refused = review(scaled_object(), facts=ClusterFacts(*PLACE, hpas=(hpa,)))

    assert refused.refused_by == "webhook"
    assert review(scaled_object(), facts=ClusterFacts(*PLACE, hpas=(own,))).is_accepted


def test_a_missing_target_is_reported() -> None:
    """The webhook stores it anyway, unless a trigger needs the target's requests."""
    facts = ClusterFacts(*PLACE, workloads={("Deployment", "w"): None})

    stored, refused = (
        review(scaled_object(), facts=facts),
        review(scaled_object(triggers=[CPU]), facts=facts),
    )

    assert (stored.is_accepted, stored.can_run) == (True, False)
    assert "target-missing" in stored.codes
    assert (refused.is_accepted, refused.codes) == (False, ("target-missing",))


def test_requests_of_the_target_and_defaults_decide() -> None:
    """A cpu trigger needs a request, of the container or of a LimitRange."""
    limit = {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}
    limit_range = {"kind": "LimitRange", "metadata": {"name": "defaults"}, "spec": limit}
    bare: dict[Any, Any] = {("Deployment", "w"): workload()}
    wanted = scaled_object(triggers=[CPU])

    assert not review(wanted, facts=ClusterFacts(*PLACE, workloads=bare)).is_accepted
    for facts in (
        ClusterFacts(*PLACE, workloads={("Deployment", "w"): workload({"cpu": "1"})}),
        ClusterFacts(*PLACE, workloads=bare, limit_ranges=(limit_range,)),
    ):
        assert review(wanted, facts=facts).is_accepted


def test_variables_of_the_target_are_read() -> None:
    """A parameter from the environment has the value of the cluster's workload, if it is read."""
    env = [{"name": "SERVERS", "value": "kafka:9092"}]
    facts = ClusterFacts(*PLACE, workloads={("Deployment", "w"): workload(env=env)})
    metadata = {"bootstrapServersFromEnv": "SERVERS", "consumerGroup": "g", "topic": "t"}
    wanted = scaled_object(triggers=[{"type": "kafka", "metadata": metadata}])

    other = [{"name": "OTHER", "value": "kafka:9092"}]
    lacks = ClusterFacts(*PLACE, workloads={("Deployment", "w"): workload(env=other)})

    assert "variable-not-known" not in review(wanted, facts=facts).codes
    assert not review(wanted, facts=lacks).can_run
    assert "variable-not-known" in review(wanted, facts=ClusterFacts(*PLACE)).codes


@pytest.mark.parametrize("is_there", [True, False])
def test_a_login_of_the_cluster_is_known(is_there: bool) -> None:
    """Without it KEDA stores the policy, and never gets ready."""
    facts = ClusterFacts(*PLACE, authentications={("TriggerAuthentication", "login"): is_there})
    trigger = {**kafka(), **LOGIN}

    found = review(scaled_object(triggers=[trigger]), facts=facts)

    assert found.is_accepted
    assert ("login-missing" in found.codes) == (not is_there)
    assert "login-not-in-file" not in found.codes


def test_a_kind_that_is_not_served_is_refused() -> None:
    """Kinds of the bench's few are not judged where they are not known."""
    target = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "w"}
    wanted = scaled_object(scaleTargetRef=target)
    served = frozenset({("argoproj.io/v1alpha1", "Rollout")})

    assert not review(wanted, facts=ClusterFacts(*PLACE, kinds=frozenset())).is_accepted
    assert review(wanted, facts=ClusterFacts(*PLACE, kinds=served)).is_accepted
    assert review(wanted, facts=ClusterFacts(*PLACE)).is_accepted


def test_a_policy_of_another_namespace_is_not_judged() -> None:
    """The facts say nothing of it; without a namespace it goes where they are from."""
    facts = ClusterFacts(*PLACE, scaled_objects=(named("theirs"),))

    with pytest.raises(WrongInput, check=lambda error: error.value == "lagbench"):
        review(scaled_object(metadata={"namespace": "lagbench"}), facts=facts)
    assert not review(scaled_object(metadata={"namespace": "orders"}), facts=facts).is_accepted


def test_what_the_webhook_cannot_read_is_named() -> None:
    """A count beyond int32 passes the schema; the finding names the field, not the kind."""
    found = review(scaled_object(maxReplicaCount=3_000_000_000))

    (finding,) = found.findings
    assert (finding.code, finding.field) == ("schema", "spec.maxReplicaCount")
    assert finding.instead == "int32"


def test_an_annotation_of_another_type_is_named() -> None:
    """A pause without quotes is a truth value."""
    found = review(scaled_object(metadata={"annotations": {"autoscaling.keda.sh/paused": True}}))

    (finding,) = found.findings
    assert finding.field == "metadata.annotations[autoscaling.keda.sh/paused]"
    assert finding.instead.startswith('"true" in quotes')


@pytest.mark.parametrize(("facts", "level"), [(None, "warning"), (ClusterFacts(*PLACE), "refused")])
def test_a_manifest_copied_out_of_the_cluster_is_reported(
    facts: ClusterFacts | None, level: str
) -> None:
    """The fields of the cluster are named, and the rest is checked as well.

    Whether the version is the stored one, only the cluster knows.
    """
    given = {"resourceVersion": "12", "uid": "a", "managedFields": [{}]}
    exported = scaled_object(metadata=given, triggers=[{**kafka(), "useCachedMetrics": True}])
    found = review({**exported, "status": {"hpaName": "h"}}, facts=facts)

    copied = {item.field: item.level for item in found.findings if item.code == "copied-out"}
    assert copied == {
        "metadata.resourceVersion": level,
        "metadata.managedFields": "note",
        "metadata.uid": "note",
        "status": "note",
    }
    assert found.is_accepted == (facts is None)
    assert "cached-metrics" in found.codes


def test_advice_on_a_finalizer_is_passed_on() -> None:
    """The API server stores it and warns."""
    found = review(scaled_object(metadata={"finalizers": ["keep"]}))

    (finding,) = [item for item in found.findings if item.code == "finalizer-name"]
    assert found.is_accepted
    assert (finding.field, finding.value) == ("metadata.finalizers", "keep")
