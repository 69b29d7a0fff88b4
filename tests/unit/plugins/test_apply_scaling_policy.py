"""A policy is put into force in anybody's Dag, and taken back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.fakes.policies import kafka
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, FakeStore, World

from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench.errors import WrongInput
from lagbench_airflow.operators.apply_scaling_policy import BEFORE, ApplyScalingPolicyOperator

NAME = "orders"
THEIRS = {
    **SCALED_OBJECT,
    "metadata": {"name": NAME, "labels": {"team": "shop"}, "resourceVersion": "7"},
    "spec": {
        "scaleTargetRef": {"name": "orders-consumer"},
        "maxReplicaCount": 6,
        "cooldownPeriod": 60,
        "triggers": [
            {
                **kafka(topic="orders", consumerGroup="shop", lagThreshold="5"),
                "authenticationRef": {"name": "kafka-login"},
            }
        ],
    },
}


class Dag:
    """The tasks of one Dag run, with what they have written."""

    def __init__(self, world: World) -> None:
        """Begin a run."""
        self.world, self.results = world, dict[tuple[str, str], Any]()
        self.stores: dict[str, FakeStore] = {}

    def run(self, task_id: str, **arguments: Any) -> dict[str, Any]:
        """Execute a task, or try it again."""
        task = ApplyScalingPolicyOperator(task_id=task_id, scaled_object=NAME, **arguments)
        ti = SimpleNamespace(
            dag_id="d",
            run_id="r",
            task_id=task_id,
            xcom_pull=lambda *, task_ids, key: self.results.get((task_ids, key)),
            xcom_push=lambda *, key, value: self.results.update({(task_id, key): value}),
        )
        store = self.stores.setdefault(task_id, FakeStore())
        found: dict[str, Any] = task.execute({"ti": ti, "task_state_store": store})
        return found


@pytest.fixture
def dag(world: World) -> Dag:
    """Return a run beside a ScaledObject of somebody else."""
    world.kube.apply(THEIRS)
    return Dag(world)


@pytest.fixture
def policy(tmp_path: Path) -> str:
    """Return a file with another policy, of another topic."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(SCALED_OBJECT))
    return str(path)


def in_force(world: World) -> Any:
    """Return the ScaledObject."""
    return world.kube.objects["ScaledObject", NAME]


def test_the_policy_scales_what_was_scaled_and_reads_what_was_read(dag: Dag, policy: str) -> None:
    """Of the object before only its target and its source stay; the result has the difference."""
    result = dag.run("swap", policy=policy)

    spec = in_force(dag.world)["spec"]
    (trigger,) = spec["triggers"]
    assert spec["scaleTargetRef"] == {"name": "orders-consumer"}
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 4)
    assert (trigger["metadata"]["topic"], trigger["metadata"]["consumerGroup"]) == (NAME, "shop")
    assert trigger["metadata"]["lagThreshold"] == "100"
    assert trigger["authenticationRef"] == {"name": "kafka-login"}
    assert "cooldownPeriod" not in spec
    assert "-  maxReplicaCount: 6" in result["diff"]
    assert result["hpa"] == f"keda-hpa-{NAME}"


def test_what_was_there_comes_back(dag: Dag, policy: str) -> None:
    """After several swaps and a retry; the mark of the last task is all that is new."""
    dag.run("swap", policy=policy)
    dag.run("swap", policy=policy)  # its first try was killed after the change
    dag.run("other", policy="lag-default")
    dag.run("restore", undo="swap")

    left = in_force(dag.world)
    assert left["spec"] == THEIRS["spec"]
    assert left["metadata"]["labels"] == {"team": "shop"}
    assert left["metadata"]["annotations"] == {RUN_ID_ANNOTATION: "d/r/restore"}


def test_a_failed_swap_can_be_taken_back(dag: Dag, policy: str) -> None:
    """What was there is noted before the change."""
    dag.world.kube.is_autoscaler_up = False

    with pytest.raises(Exception, match="take up"):
        dag.run("swap", policy=policy)

    assert dag.results["swap", BEFORE]["policy"]["spec"] == THEIRS["spec"]
    assert dag.run("swap", policy=policy, wait=False)["hpa"] is None
    assert dag.results["swap", BEFORE]["policy"]["spec"] == THEIRS["spec"]


def test_what_a_swap_has_created_is_deleted(world: World, policy: str) -> None:
    """Nothing was there before."""
    dag = Dag(world)
    dag.run("swap", policy=policy)
    assert in_force(world)["spec"]["scaleTargetRef"] == {"name": "consumer"}

    dag.run("restore", undo="swap")

    assert ("ScaledObject", NAME) not in world.kube.objects


def test_an_hpa_takes_the_place_of_a_scaled_object(dag: Dag, tmp_path: Path) -> None:
    """The target keeps its name, and gets the kind that an HPA needs."""
    path = tmp_path / "hpa.yaml"
    path.write_text(yaml.safe_dump(HPA))

    dag.run("swap", policy=str(path))

    hpa = dag.world.kube.objects["HorizontalPodAutoscaler", NAME]
    assert hpa["spec"]["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "orders-consumer",
    }
    dag.run("restore", undo="swap")
    assert in_force(dag.world)["spec"] == THEIRS["spec"]


def test_fields_of_another_manager_go(dag: Dag, policy: str) -> None:
    """Server-side apply leaves them: here everything that the object had."""
    kube, plain = dag.world.kube, dag.world.kube.apply

    def apply(manifest: Any) -> Any:
        before = kube.get(manifest["kind"], manifest["metadata"]["name"]) or {"spec": {}}
        return plain({**manifest, "spec": {**before["spec"], **manifest["spec"]}})

    kube.apply = apply  # type: ignore[method-assign]

    dag.run("swap", policy=policy)

    assert "cooldownPeriod" not in in_force(dag.world)["spec"]


def test_a_task_has_a_policy_or_takes_one_back() -> None:
    """Both, or neither, is refused when the Dag is read."""
    for arguments in ({}, {"policy": "lag-default", "undo": "swap"}):
        with pytest.raises(WrongInput, match="undo"):
            ApplyScalingPolicyOperator(task_id="swap", scaled_object=NAME, **arguments)
