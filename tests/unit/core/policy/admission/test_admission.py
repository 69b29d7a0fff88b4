"""Answers of the API server and of KEDA's webhook beside the recorded ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.policies import CPU, hpa, kafka, scaled_object

from lagbench.core.policy.admission.api_server import (
    Admission,
    FieldValidation,
    admit,
    admit_hpa,
    stored_hpa,
)
from lagbench.core.policy.admission.webhook import ClusterView

ROLLOUT = {"name": "w", "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}


def answer(
    cluster: ClusterView | None = None,
    mode: FieldValidation = "Strict",
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> Admission:
    """Return the answer to a good ScaledObject with these fields."""
    given = scaled_object(metadata=metadata, **spec)
    return admit(given, cluster or ClusterView(), field_validation=mode)


def workload(requests: dict[str, str] | None = None, **pod: Any) -> dict[str, Any]:
    """Return the Deployment that the ScaledObject scales."""
    container = {"name": "c", "resources": {"requests": requests or {}}}
    template = {"spec": {"containers": [container], **pod}}
    return {"kind": "Deployment", "metadata": {"name": "w"}, "spec": {"template": template}}


EXTERNAL = {
    "type": "External",
    "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}},
}
RESOURCE = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


@pytest.mark.parametrize(
    ("version", "minimum", "metric", "tolerance", "refused", "stored"),
    [
        ("1.34", 0, EXTERNAL, "0.05", ["spec.minReplicas"], None),
        ("1.34", 0, RESOURCE, "0.05", ["spec.minReplicas", "spec.metrics"], None),
        ("1.34", 1, EXTERNAL, "0.35", [], None),
        ("1.34", 1, EXTERNAL, "-0.1", [], None),  # dropped unread
        ("1.34", 1, EXTERNAL, "1.5", [], None),
        ("1.37", 0, EXTERNAL, "0.05", [], "0.05"),
        ("1.37", 0, RESOURCE, "0.05", ["spec.metrics"], None),
        ("1.37", 1, EXTERNAL, "0.35", [], "0.35"),
        ("1.37", 1, EXTERNAL, "-0.1", ["spec.behavior.scaleUp.tolerance"], None),
        ("1.37", 1, EXTERNAL, "1.5", [], "1.5"),
    ],
)
def test_an_hpa_is_answered_as_1_34_4_and_1_37_2_did(
    version: str,
    minimum: int,
    metric: Any,
    tolerance: str,
    *,
    refused: list[str],
    stored: str | None,
) -> None:
    """Each row was applied with kubectl to both on the rig of tests/cluster."""
    rules = {"scaleUp": {"tolerance": tolerance}}
    asked = hpa(minReplicas=minimum, metrics=[metric], behavior=rules)

    assert [one.field for one in admit_hpa(asked, version).refusals] == refused
    if not refused:
        kept = stored_hpa(asked, version)["spec"]["behavior"]["scaleUp"]
        assert kept.get("tolerance") == stored


def test_all_problems_come_in_one_answer() -> None:
    """A wrong type leaves out the rule that compares fields; the webhook itself names one."""
    schema = answer(pollingInterval=0, maxReplicaCount="10", minReplicaCount=11)
    twice = [{**kafka(), "name": "a"}, {**kafka(), "name": "a"}]
    webhook = answer(triggers=twice, minReplicaCount=1, idleReplicaCount=1)

    fields = [item.field for item in schema.refusals]
    assert set(fields) == {"spec.pollingInterval", "spec.maxReplicaCount"}
    assert [item.code for item in webhook.refusals] == ["replica-counts", "trigger-name-twice"]


@pytest.mark.parametrize(
    ("cluster", "code"),
    [
        (ClusterView(workloads=(workload({"memory": "1Gi"}),)), "request-missing"),
        (ClusterView(workloads=(workload({"cpu": "0"}),)), "request-missing"),
        (ClusterView(), None),
        (ClusterView(workloads=(workload({"cpu": "100m"}),)), None),
        (ClusterView(workloads=(workload(resources={"requests": {"cpu": "1"}}),)), None),
        (
            ClusterView(
                workloads=(workload(),),
                limit_ranges=(
                    {"spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}}]}},
                ),
            ),
            None,
        ),
        (ClusterView(missing=frozenset({("Deployment", "w")})), "target-missing"),
    ],
    ids=["another", "zero", "unknown", "container", "pod", "limit range", "missing"],
)
def test_a_cpu_trigger_needs_a_request(cluster: ClusterView, code: str | None) -> None:
    """Without one the percentage has no base; an unknown workload is not judged."""
    found = answer(cluster, triggers=[CPU])

    assert [item.code for item in found.refusals] == ([] if code is None else [code])
    assert found.code == {None: 201, "request-missing": 403, "target-missing": 404}[code]


def test_one_scaled_object_per_workload() -> None:
    """Another one on the target, or one with the HPA's name, is named; its own version is none."""
    config = {"horizontalPodAutoscalerConfig": {"name": "keda-hpa-so"}}
    other = {"name": "other"}
    same_hpa = scaled_object(metadata=other, scaleTargetRef={"name": "x"}, advanced=config)

    for stored, name in ((scaled_object(metadata=other), "other"), (same_hpa, "keda-hpa-so")):
        assert f"'{name}'" in answer(ClusterView(scaled_objects=(stored,))).refusals[0].text
    assert answer(ClusterView(scaled_objects=(scaled_object(),))).is_accepted


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
    ("target", "kinds", "is_accepted"),
    [
        ({"name": "w", "kind": "StatefulSet"}, frozenset(), True),
        ({"name": "w", "apiVersion": "apps/v9", "kind": "Deployment"}, frozenset(), True),
        ({"name": "w", "apiVersion": "a/b/c"}, None, False),
        ({"name": "w", "apiVersion": "apps/v1", "kind": "Bar"}, None, False),
        # Without knowledge of the cluster's custom resources their kinds are not rejected.
        (ROLLOUT, None, True),
        (ROLLOUT, frozenset(), False),
        (ROLLOUT, frozenset({("argoproj.io/v1alpha1", "Rollout")}), True),
        *[
            ({"name": "w", "kind": kind, "apiVersion": version}, {("apps/v1", "ReplicaSet")}, True)
            for version, kind in (
                ("apps/v1", "replicaset"),
                ("", "ReplicaSetList"),
                ("apps/", "ReplicaSet"),
            )
        ],
    ],
)
def test_the_kind_of_the_target_must_exist(
    target: dict[str, str], kinds: Any, is_accepted: bool
) -> None:
    """Kinds are looked up, except for Deployment and StatefulSet, whose version is not checked."""
    found = answer(ClusterView(kinds=kinds), scaleTargetRef=target)

    assert found.is_accepted == is_accepted
    assert {item.code for item in found.refusals} == (set() if is_accepted else {"target-kind"})


def test_an_hpa_of_an_unknown_kind_stands_in_the_way() -> None:
    """The webhook cannot tell whether it is on the same workload, and rejects."""
    hpa = {"metadata": {"name": "theirs"}, "spec": {"scaleTargetRef": ROLLOUT}}

    found = answer(ClusterView(hpas=(hpa,), kinds=frozenset()))

    assert [item.code for item in found.refusals] == ["target-kind"]


def test_a_view_can_leave_an_object_and_its_hpa_out() -> None:
    """What was read after an object was made still shows what was there before."""
    made = scaled_object(metadata={"name": "made", "uid": "1"})
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
    found = answer(metadata=metadata)

    assert (found.code, found.refused_by) == (code, "apiserver")
    assert any(named in str(item) for item in found.refusals)


def test_what_a_stored_object_may_carry() -> None:
    """The version that an update is made from, and finalizers, odd ones with advice."""
    update = scaled_object(metadata={"resourceVersion": "1"})
    odd = answer(metadata={"finalizers": ["keep", "finalizer.keda.sh", "a.b/c", "orphan"]})

    assert admit(update, ClusterView(scaled_objects=(update,))).is_accepted
    assert odd.is_accepted
    named = [' "finalizer.keda.sh"', ' "keep"']
    assert [text.split(":")[1] for text in odd.warnings] == named


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
    wrong = {**scaled_object(), "status": {"phase": "Running"}}

    assert admit({**scaled_object(), "status": {"hpaName": 5}}, ClusterView()).is_accepted
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
