"""Which policies of somebody else a run must not touch."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.fake_kube import FakeKube

from lagbench.adapters.kube.cluster_check import base_objects, foreign_objects, policies_in_the_way
from lagbench.core.scenario.consumer_kinds import SPARK_MASTER
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames

HPA, SCALED_OBJECT = "HorizontalPodAutoscaler", "ScaledObject"


def policy(
    kind: str, name: str, target: str, *, owner: str = "", run_id: str = ""
) -> dict[str, Any]:
    """Return a policy on a Deployment."""
    metadata: dict[str, Any] = {"name": name}
    if owner:
        metadata["ownerReferences"] = [{"kind": SCALED_OBJECT, "name": owner}]
    if run_id:
        metadata["labels"] = {RUN_ID_LABEL: run_id}
    return {"kind": kind, "metadata": metadata, "spec": {"scaleTargetRef": {"name": target}}}


@pytest.mark.parametrize(
    ("found", "is_reported"),
    [
        pytest.param(policy(HPA, "consumer", "web"), True, id="hpa-of-the-name"),
        pytest.param(policy(SCALED_OBJECT, "consumer", "web"), True, id="object-of-the-name"),
        pytest.param(policy(HPA, "consumer", "web", owner="web"), True, id="keda-named-it-so"),
        pytest.param(policy(SCALED_OBJECT, "orders", "consumer"), True, id="on-the-consumers"),
        pytest.param(policy(HPA, "x", "consumer", owner="orders"), False, id="named-by-its-owner"),
        pytest.param(policy(HPA, "web", "web"), False, id="neither"),
        pytest.param(policy(HPA, "consumer", "consumer", run_id="a"), False, id="of-a-run"),
    ],
)
def test_a_policy_is_in_the_way_by_its_name_or_its_target(
    found: dict[str, Any], *, is_reported: bool
) -> None:
    """A run would replace the one, and fight with the other; of what it made itself it is free."""
    kube = FakeKube()
    kube.objects[found["kind"], found["metadata"]["name"]] = found

    reported = list(policies_in_the_way(kube, RunNames("any")))  # type: ignore[arg-type]

    assert reported == ([f"{found['kind']}/{found['metadata']['name']}"] if is_reported else [])


def named_hpa(name: str) -> dict[str, Any]:
    """Return a run's policy that names its HPA."""
    advanced = {"horizontalPodAutoscalerConfig": {"name": name}}
    return {"kind": SCALED_OBJECT, "metadata": {"name": "mine"}, "spec": {"advanced": advanced}}


@pytest.mark.parametrize(
    ("name", "owner", "policies", "is_reported"),
    [
        pytest.param("orders", "", [named_hpa("orders")], True, id="the-policy-names-it"),
        pytest.param("orders", "web", [named_hpa("orders")], True, id="of-another-object"),
        pytest.param("orders", "consumer", [named_hpa("orders")], False, id="of-our-object"),
        pytest.param("orders", "", [], False, id="no-policy-names-it"),
        pytest.param("keda-hpa-consumer", "", [], True, id="keda-s-own-name"),
    ],
)
def test_an_hpa_with_the_name_of_a_policy_s_is_in_the_way(
    name: str, owner: str, policies: list[dict[str, Any]], *, is_reported: bool
) -> None:
    """KEDA starts no policy whose HPA is another object's, whatever that one scales."""
    kube = FakeKube()
    kube.objects[HPA, name] = policy(HPA, name, "web", owner=owner)

    reported = list(policies_in_the_way(kube, RunNames("any"), policies))  # type: ignore[arg-type]

    assert reported == ([f"{HPA}/{name}"] if is_reported else [])


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


def test_a_run_without_actions_leaves_objects_of_that_name_alone() -> None:
    """``actions`` is a common name, and such a run applies nothing of it."""
    kube = FakeKube()
    kube.objects["Role", "actions"] = {"kind": "Role", "metadata": {"name": "actions"}}

    assert list(foreign_objects(kube, has_actions=False)) == []  # type: ignore[arg-type]
    assert list(foreign_objects(kube)) == ["Role/actions"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "companion",
    [
        pytest.param(companion, id=f"{folder}-{companion['kind']}")
        for folder in ("consumer", "recorder", "lag-scaler", "actions", SPARK_MASTER)
        for companion in base_objects(folder)
        if companion["kind"] != "PersistentVolumeClaim"
    ],
)
def test_a_companion_of_somebody_else_is_in_the_way(companion: dict[str, Any]) -> None:
    """A run applies these beside its workloads, labels them as its own and deletes them."""
    kind, name = companion["kind"], companion["metadata"]["name"]
    kube = FakeKube()
    kube.objects[kind, name] = {"kind": kind, "metadata": {"name": name}}

    assert list(foreign_objects(kube)) == [f"{kind}/{name}"]  # type: ignore[arg-type]
