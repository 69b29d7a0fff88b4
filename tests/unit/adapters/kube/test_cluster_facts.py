"""What of a cluster is read for a policy file, and what becomes of a right that is missing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.fake_kube import FakeKube
from tests.fakes.policies import CPU, scaled_object

from lagbench.adapters.kube.cluster_check import (
    base_objects,
    foreign_objects,
    policies_in_the_way,
    read_cluster_facts,
)
from lagbench.core.policy.review.cluster_facts import ClusterFacts
from lagbench.core.scenario.consumer_kinds import SPARK_MASTER
from lagbench.core.scenario.run_names import NAMESPACE, RUN_ID_LABEL, RunNames
from lagbench.errors import NotAllowed, NotReady

ROLLOUT = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "w"}


class Served:
    """The kinds of a cluster with KEDA; ``asked`` lists the groups."""

    def __init__(self, *, has_keda: bool = True, lacks: tuple[str, ...] = ()) -> None:
        """Begin with nothing asked; a small API ``lacks`` some kinds."""
        self.asked: list[str] = []
        self._kinds: dict[str, set[tuple[str, str]]] = {
            "": {("v1", "LimitRange")},
            "apps": {("apps/v1", "Deployment"), ("apps/v1", "StatefulSet")},
            "autoscaling": {("autoscaling/v2", "HorizontalPodAutoscaler")},
        }
        if has_keda:
            found = ("ScaledObject", "TriggerAuthentication", "ClusterTriggerAuthentication")
            self._kinds["keda.sh"] = {("keda.sh/v1alpha1", kind) for kind in found}
        for group, kinds in self._kinds.items():
            self._kinds[group] = {pair for pair in kinds if pair[1] not in lacks}

    def kinds(self, group: str) -> frozenset[tuple[str, str]]:
        """Return what is served."""
        self.asked.append(group)
        return frozenset(self._kinds.get(group, ()))


class StrictKube(FakeKube):
    """An API server that lets an account read only some kinds; ``read`` lists what was asked."""

    def __init__(self, *forbidden: str) -> None:
        """Reject some kinds."""
        super().__init__()
        self.read: list[str] = []
        self._forbidden = forbidden

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Reject, or return the object."""
        self._check(kind, f"{kind}/{name}")
        return super().get(kind, name)

    def list(self, kind: str, *, label_selector: str = "") -> list[dict[str, Any]]:
        """Reject, or return the objects."""
        self._check(kind, kind)
        return super().list(kind, label_selector=label_selector)

    def _check(self, kind: str, what: str) -> None:
        self.read.append(what)
        if kind in self._forbidden:
            raise NotAllowed(f"403: {kind}")


def workload(kind: str = "Deployment", **requests: str) -> dict[str, Any]:
    """Return the target of ``scaled_object()``."""
    container = {"name": "main", "resources": {"requests": requests}}
    spec = {"template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": spec}


def facts(kube: FakeKube, *documents: Any, served: Served | None = None) -> ClusterFacts:
    """Read the facts for a file."""
    return read_cluster_facts(kube, served or Served(), documents, source="context:prod")


def put(kube: FakeKube, *manifests: dict[str, Any]) -> None:
    """Store objects."""
    for manifest in manifests:
        kube.objects[manifest["kind"], manifest["metadata"]["name"]] = manifest


def test_what_the_webhook_looks_at_is_read() -> None:
    """All ScaledObjects and HPAs, the target by name, and of kinds nothing."""
    kube, hpa = StrictKube(), {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}}
    put(kube, scaled_object(metadata={"name": "other"}), hpa, workload())

    found = facts(kube, scaled_object())

    assert kube.read == ["ScaledObject", "HorizontalPodAutoscaler", "Deployment/w"]
    assert found.as_dict() == {
        "target": "context:prod",
        "namespace": NAMESPACE,
        "scaled_objects": ["other"],
        "horizontal_pod_autoscalers": ["h"],
        "kubernetes": None,
        "limit_ranges": None,
        "objects": {"Deployment w": True},
        "api_groups": {},
    }


def test_a_target_that_is_not_there_is_known_to_be_missing() -> None:
    """The webhook's view lacks it, whatever its kind; one of the file is applied before.

    A name that none can have would become part of a path: it is not asked for.
    """
    for target in ({"name": "w", "kind": "StatefulSet"}, {"name": "../../secrets"}):
        kube = StrictKube()
        missing = facts(kube, scaled_object(scaleTargetRef=target)).view().missing
        assert missing == {(target.get("kind", "Deployment"), target["name"])}
        assert ("StatefulSet/w" in kube.read) == (target["name"] == "w")
        assert len(kube.read) == 2 + (target["name"] == "w")

    kube = StrictKube()
    assert facts(kube, workload(), scaled_object()).workloads == {}
    assert "Deployment/w" not in kube.read


@pytest.mark.parametrize(("requests", "is_read"), [({}, True), ({"cpu": "1"}, False)])
def test_defaults_are_read_where_they_can_decide(requests: dict[str, str], is_read: bool) -> None:
    """A LimitRange matters to a cpu trigger on a container that requests none."""
    kube = StrictKube()
    put(kube, workload(**requests), {"kind": "LimitRange", "metadata": {"name": "defaults"}})

    found = facts(kube, scaled_object(triggers=[CPU]))

    assert ("LimitRange" in kube.read) == is_read
    assert found.as_dict()["limit_ranges"] == (["defaults"] if is_read else None)


def test_logins_that_the_file_lacks_are_looked_up() -> None:
    """A login of the file is there already; one of the cluster as a whole has its own kind."""
    kube = StrictKube()
    put(kube, {"kind": "ClusterTriggerAuthentication", "metadata": {"name": "all"}})
    own = {"kind": "TriggerAuthentication", "metadata": {"name": "own"}}
    references: list[dict[str, str]] = [
        {"name": "own"},
        {"name": "gone"},
        {"name": "all", "kind": "ClusterTriggerAuthentication"},
    ]
    triggers = [{"type": "kafka", "authenticationRef": item} for item in references]

    found = facts(kube, own, scaled_object(triggers=triggers))

    assert found.authentications == {
        ("TriggerAuthentication", "gone"): False,
        ("ClusterTriggerAuthentication", "all"): True,
    }


def test_kinds_of_the_targets_groups_are_asked() -> None:
    """Also the group of an HPA's target that has the name of ours."""
    kube = FakeKube()
    other = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "w"}
    far = {"apiVersion": "far.example.com/v1", "kind": "Thing", "name": "far"}
    for number, target in enumerate((other, far)):
        metadata = {"name": str(number)}
        hpa = {"kind": "HorizontalPodAutoscaler", "metadata": metadata}
        put(kube, {**hpa, "spec": {"scaleTargetRef": target}})

    found = facts(kube, scaled_object(scaleTargetRef=ROLLOUT))

    assert found.as_dict()["api_groups"] == {"argoproj.io": False, "example.com": False}
    assert found.kinds == frozenset()


def test_what_a_small_api_lacks_says_nothing() -> None:
    """An object of a kind that is not served is not missing there, nor are defaults."""
    served = Served(lacks=("StatefulSet", "LimitRange"))
    target = {"name": "w", "kind": "StatefulSet"}
    documents = [scaled_object(scaleTargetRef=target, triggers=[CPU])]

    small, whole = (
        read_cluster_facts(FakeKube(), served, documents, source="here", knows_kinds=knows)
        for knows in (False, True)
    )

    assert (small.view().missing, small.kinds, small.limit_ranges) == (set(), None, None)
    assert whole.view().missing == {("StatefulSet", "w")}


def test_every_missing_right_is_reported_at_once() -> None:
    """Verb and resource, as a Role writes them."""
    kube = StrictKube("ScaledObject", "Deployment")

    with pytest.raises(NotAllowed) as refused:
        facts(kube, scaled_object())

    for named in ("list on scaledobjects.keda.sh", "get on deployments.apps", NAMESPACE):
        assert named in str(refused.value)


def test_a_cluster_without_keda_is_not_ready() -> None:
    """The message says how to install it, and nothing was read.

    A file without a ScaledObject of this namespace asks nothing at all.
    """
    kube, served = StrictKube(), Served()
    elsewhere = scaled_object(metadata={"namespace": "elsewhere"})

    with pytest.raises(NotReady, match="helm install keda"):
        facts(kube, scaled_object(), served=Served(has_keda=False))
    found = facts(kube, {"kind": "HorizontalPodAutoscaler"}, elsewhere, "text", served=served)

    assert (kube.read, served.asked) == ([], [])
    assert found.as_dict()["scaled_objects"] is None


@pytest.mark.parametrize(
    "spec",
    [
        {"scaleTargetRef": "w"},
        {"scaleTargetRef": {"name": ["w"], "kind": {}}},
        {"triggers": {"type": "cpu"}},
        {"triggers": ["cpu", {"authenticationRef": "x"}, {"type": ["cpu"]}]},
    ],
)
def test_a_malformed_policy_is_no_hindrance(spec: dict[str, Any]) -> None:
    """The API server rejects it; what can be read of the cluster is read."""
    assert facts(FakeKube(), scaled_object(**spec)).scaled_objects == ()


HPA, SCALED_OBJECT = "HorizontalPodAutoscaler", "ScaledObject"


def scaling(
    kind: str, name: str, target: str, *, owner: str = "", run_id: str = ""
) -> dict[str, Any]:
    """Return a policy on a Deployment."""
    metadata: dict[str, Any] = {"name": name}
    if owner:
        metadata["ownerReferences"] = [{"kind": SCALED_OBJECT, "name": owner}]
    if run_id:
        metadata["labels"] = {RUN_ID_LABEL: run_id}
    return {"kind": kind, "metadata": metadata, "spec": {"scaleTargetRef": {"name": target}}}


def named_hpa(name: str) -> dict[str, Any]:
    """Return a run's policy that names its HPA."""
    advanced = {"horizontalPodAutoscalerConfig": {"name": name}}
    return {"kind": SCALED_OBJECT, "metadata": {"name": "mine"}, "spec": {"advanced": advanced}}


ORDERS = [named_hpa("orders")]


@pytest.mark.parametrize(
    ("found", "policies", "is_reported"),
    [
        # An object of the name of the run's policy, and one on the consumers.
        (scaling(HPA, "consumer", "web"), [], True),
        (scaling(SCALED_OBJECT, "consumer", "web"), [], True),
        (scaling(HPA, "consumer", "web", owner="web"), [], True),
        (scaling(SCALED_OBJECT, "orders", "consumer"), [], True),
        # Its owner is reported; another workload's is none of ours; this is an earlier run's.
        (scaling(HPA, "x", "consumer", owner="orders"), [], False),
        (scaling(HPA, "web", "web"), [], False),
        (scaling(HPA, "consumer", "consumer", run_id="a"), [], False),
        # KEDA starts no policy whose HPA is another object's, whatever that one scales.
        (scaling(HPA, "orders", "web"), ORDERS, True),
        (scaling(HPA, "orders", "web", owner="web"), ORDERS, True),
        (scaling(HPA, "orders", "web", owner="consumer"), ORDERS, False),
        (scaling(HPA, "orders", "web"), [], False),
        (scaling(HPA, "keda-hpa-consumer", "web"), [], True),
    ],
)
def test_a_policy_is_in_the_way_by_its_name_or_its_target(
    found: dict[str, Any], policies: list[dict[str, Any]], *, is_reported: bool
) -> None:
    """A run would replace the one, and fight with the other."""
    kube: Any = FakeKube()
    put(kube, found)

    reported = list(policies_in_the_way(kube, RunNames("any"), policies))

    assert reported == ([f"{found['kind']}/{found['metadata']['name']}"] if is_reported else [])


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_workload_of_somebody_else_is_in_the_way(kind: str) -> None:
    """The consumers can be either kind, so neither may be replaced by accident."""
    template = {"metadata": {"labels": {"app": "consumer"}}, "spec": {}}
    manifest = {"kind": kind, "metadata": {"name": "consumer"}, "spec": {"template": template}}
    kube = FakeKube()
    kube.apply(manifest)

    assert list(foreign_objects(kube)) == [f"{kind}/consumer"]  # type: ignore[arg-type]

    kube.apply({**manifest, "metadata": {"name": "consumer", "labels": {RUN_ID_LABEL: "r1"}}})

    assert list(foreign_objects(kube)) == []  # type: ignore[arg-type]


def test_a_companion_of_somebody_else_is_in_the_way() -> None:
    """A run applies these beside its workloads, labels them as its own and deletes them.

    ``actions`` is a common name, and a run without actions applies nothing of it.
    """
    for folder in ("consumer", "recorder", "lag-scaler", "actions", SPARK_MASTER):
        for companion in base_objects(folder):
            kind, name = companion["kind"], companion["metadata"]["name"]
            kube: Any = FakeKube()
            put(kube, {"kind": kind, "metadata": {"name": name}})
            expected = [] if kind == "PersistentVolumeClaim" else [f"{kind}/{name}"]
            assert list(foreign_objects(kube)) == expected
            is_applied = folder != "actions"
            found = list(foreign_objects(kube, has_actions=False))
            assert found == (expected if is_applied else [])
