"""ScaledObjects and workloads for the tests of the admission."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lagbench.core.policy.admission.api_server import Admission, FieldValidation, admit
from lagbench.core.policy.admission.webhook import ClusterView

TRIGGER: dict[str, Any] = {
    "type": "kafka",
    "metadata": {"bootstrapServers": "kafka:9092", "consumerGroup": "g", "topic": "t"},
}

CPU: dict[str, Any] = {"type": "cpu", "metricType": "Utilization", "metadata": {"value": "50"}}

SPEC = {"scaleTargetRef": {"name": "w"}, "minReplicaCount": 1, "triggers": [TRIGGER]}


def manifest(name: str = "so", **spec: Any) -> dict[str, Any]:
    """Return a good ScaledObject with some fields of the spec replaced."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": "n"},
        "spec": {**copy.deepcopy(SPEC), **spec},
    }


def answer(
    cluster: ClusterView | None = None, mode: FieldValidation = "Strict", **spec: Any
) -> Admission:
    """Return the answer to that ScaledObject."""
    return admit(manifest(**spec), cluster or ClusterView(), field_validation=mode)


def workload(requests: dict[str, str] | None = None, **pod: Any) -> dict[str, Any]:
    """Return the Deployment that the ScaledObject scales."""
    container = {"name": "c", "resources": {"requests": requests or {}}}
    template = {"spec": {"containers": [container], **pod}}
    return {"kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": template}}


def test_a_good_object_is_accepted() -> None:
    """It is stored, without a warning."""
    found = answer()

    assert found.is_accepted
    assert found.warnings == ()


def test_several_problems_come_in_one_answer() -> None:
    """Both fields are named; a wrong type leaves out the rule that compares fields."""
    found = answer(pollingInterval=0, maxReplicaCount="10", minReplicaCount=11)

    assert [item.field for item in found.refusals] == [
        "spec.pollingInterval",
        "spec.maxReplicaCount",
    ]


def test_null_is_as_if_it_were_not_written() -> None:
    """The API server drops a null on decoding."""
    assert answer(minReplicaCount=None, maxReplicaCount=None).is_accepted


@pytest.mark.parametrize("requests", [{}, {"memory": "1Gi"}, {"cpu": "0"}])
def test_a_cpu_trigger_needs_a_request(requests: dict[str, str]) -> None:
    """Without a CPU request on every container the percentage has no base."""
    found = answer(ClusterView(workloads=(workload(requests),)), triggers=[CPU])

    assert [item.code for item in found.refusals] == ["request-missing"]


@pytest.mark.parametrize(
    "cluster",
    [
        ClusterView(),
        ClusterView(workloads=(workload({"cpu": "100m"}),)),
        ClusterView(workloads=(workload(resources={"requests": {"cpu": "1"}}),)),
        ClusterView(
            workloads=(workload(),),
            limit_ranges=(
                {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}},
            ),
        ),
    ],
    ids=["workload unknown", "container", "pod", "limit range"],
)
def test_a_request_may_come_from_elsewhere(cluster: ClusterView) -> None:
    """The container, the pod or a LimitRange gives it; an unknown workload is not judged."""
    assert answer(cluster, triggers=[CPU]).is_accepted


def test_one_scaled_object_per_workload() -> None:
    """Another ScaledObject on the target, or one that owns the HPA's name, is named."""
    same_target, same_hpa = manifest("other"), manifest("other", scaleTargetRef={"name": "x"})
    same_hpa["spec"]["advanced"] = {"horizontalPodAutoscalerConfig": {"name": "keda-hpa-so"}}

    first = answer(ClusterView(scaled_objects=(same_target,)))
    second = answer(ClusterView(scaled_objects=(same_hpa,)))

    assert "'other'" in first.refusals[0].text
    assert "'keda-hpa-so'" in second.refusals[0].text


def test_an_object_does_not_conflict_with_itself() -> None:
    """An update meets its own former version."""
    assert answer(ClusterView(scaled_objects=(manifest(),))).is_accepted


def test_every_problem_of_the_webhook_is_given() -> None:
    """The webhook itself answers with one of them, whichever it meets first."""
    twice = [{**TRIGGER, "name": "a"}, {**TRIGGER, "name": "a"}]
    found = answer(triggers=twice, idleReplicaCount=1)

    assert [item.code for item in found.refusals] == ["replica-counts", "trigger-name-twice"]


@pytest.mark.parametrize(
    "broken",
    [
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": "x", "spec": {}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": "x"},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": 5}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob"},
        {"apiVersion": "keda.sh/v1"},
        {},
    ],
)
def test_what_is_no_scaled_object_is_refused(broken: dict[str, Any]) -> None:
    """Any document gets an answer, never an exception."""
    assert not admit(broken, ClusterView()).is_accepted


@pytest.mark.parametrize(
    ("target", "accepted"),
    [
        ({"name": "w", "kind": "StatefulSet"}, True),
        ({"name": "w", "apiVersion": "apps/v9", "kind": "Deployment"}, True),
        ({"name": "w", "kind": "DaemonSet"}, True),
        ({"name": "w", "apiVersion": "foo.io/v1", "kind": "Bar"}, False),
        ({"name": "w", "apiVersion": "apps/v1", "kind": "Bar"}, False),
        ({"name": "w", "apiVersion": "a/b/c"}, False),
    ],
)
def test_the_kind_of_the_target_must_exist(target: dict[str, str], accepted: bool) -> None:
    """Kinds are looked up, except for Deployment and StatefulSet, whose version is not checked."""
    cluster = ClusterView(knows_all_kinds=True)

    assert answer(cluster, scaleTargetRef=target).is_accepted == accepted


def test_a_kind_may_come_from_another_operator() -> None:
    """Without knowledge of the cluster's custom resources their kinds are not rejected."""
    rollout = {"name": "w", "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}

    assert answer(scaleTargetRef=rollout).is_accepted


def test_a_fact_of_the_cluster_can_be_all_there_is() -> None:
    """A workload that is known to be missing is, and a kind that is not served."""
    known = ClusterView(
        missing=frozenset({("Deployment", "w")}), kinds=frozenset({("apps/v1", "ReplicaSet")})
    )
    rollout = {"name": "w", "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}

    missing = answer(known, triggers=[CPU])
    unknown = answer(known, scaleTargetRef=rollout)

    assert missing.code == 404
    assert [item.code for item in unknown.refusals] == ["target-kind"]
    for version, kind in (
        ("apps/v1", "replicaset"),
        ("", "ReplicaSetList"),
        ("apps/", "ReplicaSet"),
    ):
        target = {"name": "w", "kind": kind, "apiVersion": version}
        assert answer(known, scaleTargetRef=target).is_accepted


def test_an_hpa_of_an_unknown_kind_stands_in_the_way() -> None:
    """The webhook cannot tell whether it is on the same workload, and rejects."""
    target = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "w"}
    hpa = {"metadata": {"name": "theirs"}, "spec": {"scaleTargetRef": target}}

    found = answer(ClusterView(hpas=(hpa,), kinds=frozenset()))

    assert [item.code for item in found.refusals] == ["target-kind"]


def test_a_view_can_leave_an_object_and_its_hpa_out() -> None:
    """What was read after an object was made still shows what was there before."""
    made = {**manifest("made"), "metadata": {"name": "made", "uid": "1"}}
    owners = [{"kind": "ScaledObject", "name": "made", "uid": "1"}]
    hpa = {
        "metadata": {"name": "h", "uid": "2", "ownerReferences": owners},
        "spec": {"scaleTargetRef": {"name": "w"}},
    }
    seen = ClusterView(scaled_objects=(made,), hpas=(hpa,))

    assert not answer(seen).is_accepted
    assert answer(seen.without("1")).is_accepted


def test_a_refusal_comes_with_its_warnings() -> None:
    """Fields are dropped with a word before the object is rejected for something else."""
    found = answer(mode="Warn", maxReplicas=8, minReplicaCount="1")

    assert (found.code, len(found.warnings)) == (422, 1)


@pytest.mark.parametrize(
    ("metadata", "code", "named"),
    [
        ({"resourceVersion": "1"}, 500, "resourceVersion"),
        ({"creationTimestamp": "now"}, 400, "creationTimestamp"),
        ({"creationTimestamp": "2026-11-21T18:00:00"}, 400, "creationTimestamp"),
        ({"ownerReferences": [{"kind": "A", "name": "b"}]}, 422, "ownerReferences[0].uid"),
        ({"finalizers": ["keep it"]}, 422, '"keep it"'),
        ({"labels": {"/x": ""}}, 422, '"/x"'),
        ({"labels": {"a/": ""}}, 422, '"a/"'),
        ({"annotations": {"a/b/c": ""}}, 422, '"a/b/c"'),
    ],
)
def test_metadata_is_refused(metadata: dict[str, Any], code: int, named: str) -> None:
    """What the API server holds of every object."""
    given = manifest()
    given["metadata"] |= metadata

    found = admit(given, ClusterView())

    assert (found.code, found.refused_by) == (code, "apiserver")
    assert any(named in str(item) for item in found.refusals)


def test_a_stored_object_may_carry_its_version() -> None:
    """An update names the version that it is made from."""
    given = manifest()
    given["metadata"]["resourceVersion"] = "1"

    assert admit(given, ClusterView(scaled_objects=(given,))).is_accepted


def test_a_finalizer_without_a_domain_is_warned_of() -> None:
    """Stored anyway, with the API server's advice."""
    given = manifest()
    given["metadata"]["finalizers"] = ["keep", "finalizer.keda.sh", "a.b/c", "orphan"]

    found = admit(given, ClusterView())

    assert found.is_accepted
    assert [text.split(":")[1] for text in found.warnings] == [' "finalizer.keda.sh"', ' "keep"']


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"scaleTargetRef": [{"name": "w"}]}, "spec.scaleTargetRef[0].name"),
        ({"triggers": {"type": "kafka"}}, "spec.triggers.type"),
    ],
)
def test_fields_in_the_wrong_place_are_unknown(spec: dict[str, Any], path: str) -> None:
    """Where the schema wants something else, it knows none of the fields below."""
    found = answer(**spec)

    assert (found.code, [item.field for item in found.refusals]) == (400, [path])


def test_the_status_is_dropped_but_its_fields_are_known() -> None:
    """A person's status is not looked at, apart from the names in it."""
    given = manifest()
    given["status"] = {"hpaName": 5}
    wrong = {**given, "status": {"phase": "Running"}}

    assert admit(given, ClusterView()).is_accepted
    assert [item.field for item in admit(wrong, ClusterView()).refusals] == ["status.phase"]


@pytest.mark.parametrize(
    ("count", "found"),
    [(10.0, None), (2.0**53, "number"), (2**63, "number"), (1.5, "number"), (2**62, "integer")],
)
def test_what_counts_as_a_whole_number(count: float, found: str | None) -> None:
    """A float does while floats count one by one, an int while an int64 holds it."""
    answered = answer(maxReplicaCount=count)

    if found == "number":
        assert [item.field for item in answered.refusals] == ["spec.maxReplicaCount"]
        assert answered.refused_by == "apiserver"
    else:
        assert answered.refused_by == (None if found is None else "webhook")
