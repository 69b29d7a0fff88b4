"""What the API server and KEDA's webhook answer to a ScaledObject."""

from typing import Any

import pytest
from tests.unit.core.policy.admission.scaled_objects import CPU, TRIGGER, answer, manifest, workload

from lagbench.core.policy.admission.answer import FieldValidation, admit
from lagbench.core.policy.admission.cluster import ClusterView


def test_a_good_object_is_accepted() -> None:
    """It is stored, without a warning."""
    found = answer()

    assert found.is_accepted
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"pollingInterval": 0}, "spec.pollingInterval"),
        ({"maxReplicaCount": "10"}, "spec.maxReplicaCount"),
        ({"triggers": []}, "spec.triggers"),
        ({"triggers": [{**TRIGGER, "type": ""}]}, "spec.triggers[0].type"),
        ({"triggers": "kafka"}, "spec.triggers"),
        (
            {"fallback": {"failureThreshold": 1, "replicas": 1, "behavior": "x"}},
            "spec.fallback.behavior",
        ),
        (
            {"advanced": {"scalingModifiers": {"metricType": "Utilization"}}},
            "spec.advanced.scalingModifiers.metricType",
        ),
        ({"minReplicaCount": 11, "maxReplicaCount": 10}, "spec"),
    ],
)
def test_the_schema_refuses(spec: dict[str, Any], field: str) -> None:
    """Types, bounds, enumerations and the rule between the counts are the API server's."""
    found = answer(**spec)

    assert (found.code, found.refused_by) == (422, "apiserver")
    assert [error.field for error in found.field_errors] == [field]


def test_several_problems_come_in_one_answer() -> None:
    """Both fields are named; a wrong type leaves out the rule that compares fields."""
    found = answer(pollingInterval=0, maxReplicaCount="10", minReplicaCount=11)

    assert [error.field for error in found.field_errors] == [
        "spec.pollingInterval",
        "spec.maxReplicaCount",
    ]


def test_null_is_as_if_it_were_not_written() -> None:
    """The API server drops a null on decoding."""
    assert answer(minReplicaCount=None, maxReplicaCount=None).is_accepted


@pytest.mark.parametrize(
    ("mode", "accepted", "warnings"),
    [("Strict", False, 0), ("Warn", True, 1), ("Ignore", True, 0)],
)
def test_unknown_fields(mode: FieldValidation, accepted: bool, warnings: int) -> None:
    """Strict validation, kubectl's own, rejects them; else they are dropped, at most warned of."""
    found = answer(mode=mode, maxReplicas=8)

    assert found.is_accepted == accepted
    assert len(found.warnings) == warnings


@pytest.mark.parametrize("requests", [{}, {"memory": "1Gi"}, {"cpu": "0"}])
def test_a_cpu_trigger_needs_a_request(requests: dict[str, str]) -> None:
    """Without a CPU request on every container the percentage has no base."""
    found = answer(ClusterView(workloads=(workload(requests),)), triggers=[CPU])

    (reason,) = found.reasons
    assert "container c " in reason


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


def test_cpu_alone_cannot_scale_to_zero() -> None:
    """With cpu or memory only, minReplicaCount 0 or none is rejected."""
    assert not answer(triggers=[CPU], minReplicaCount=0).is_accepted
    assert answer(triggers=[CPU, TRIGGER], minReplicaCount=0).is_accepted


def test_one_scaled_object_per_workload() -> None:
    """Another ScaledObject on the target, or one that owns the HPA's name, is named."""
    same_target, same_hpa = manifest("other"), manifest("other", scaleTargetRef={"name": "x"})
    same_hpa["spec"]["advanced"] = {"horizontalPodAutoscalerConfig": {"name": "keda-hpa-so"}}

    first = answer(ClusterView(scaled_objects=(same_target,)))
    second = answer(ClusterView(scaled_objects=(same_hpa,)))

    assert "'other'" in first.reasons[0]
    assert "'keda-hpa-so'" in second.reasons[0]


def test_an_object_does_not_conflict_with_itself() -> None:
    """An update meets its own former version."""
    assert answer(ClusterView(scaled_objects=(manifest(),))).is_accepted


def test_every_problem_of_the_webhook_is_given() -> None:
    """The webhook itself answers with one of them, whichever it meets first."""
    twice = [{**TRIGGER, "name": "a"}, {**TRIGGER, "name": "a"}]
    found = answer(triggers=twice, idleReplicaCount=1)

    idle, name = found.reasons
    assert "IdleReplicaCount=1" in idle
    assert 'triggerName "a"' in name
    assert len(found.messages) == 2


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
    assert '"Rollout"' in unknown.reasons[0]
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

    (reason,) = found.reasons
    assert '"Rollout"' in reason


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
    ("formula", "is_accepted"),
    [
        ("[1, 2][-2]", True),
        ("[1, 2][2]", False),
        ("[1][-3]", False),
        ("first([])", False),
        ("first([1])", True),
    ],
)
def test_a_formula_is_tried(formula: str, *, is_accepted: bool) -> None:
    """KEDA runs a formula once before it takes it."""
    found = answer(advanced={"scalingModifiers": {"formula": formula, "target": "1"}})

    assert found.is_accepted is is_accepted
