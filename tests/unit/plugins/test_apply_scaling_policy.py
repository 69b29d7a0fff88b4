"""A policy is put into force in anybody's Dag, and taken back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from tests.fakes.policies import kafka
from tests.unit.plugins.conftest import HPA, SCALED_OBJECT, FakeStore, World

from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench.errors import WrongInput
from lagbench_airflow.operators.apply_scaling_policy import BEFORE, ApplyScalingPolicyOperator

NAME = "orders"
THEIRS: dict[str, Any] = {
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
        self.world, self.results = world, dict[tuple[str, int, str], Any]()
        self.stores: dict[tuple[str, int], FakeStore] = {}

    def run(self, task_id: str, *, index: int = -1, **arguments: Any) -> dict[str, Any]:
        """Execute a task, or an instance of a mapped one, or try it again."""
        arguments = {"scaled_object": NAME, **arguments}
        task = ApplyScalingPolicyOperator(task_id=task_id, **arguments)

        def pull(*, task_ids: str, key: str, map_indexes: int | None = None) -> Any:
            """Return the values as Airflow does: several ones of a mapped task as a list."""
            known = {
                i: one for (task, i, k), one in self.results.items() if (task, k) == (task_ids, key)
            }
            if map_indexes is not None:
                return known.get(map_indexes)
            return next(iter(known.values())) if len(known) == 1 else list(known.values())

        ti = SimpleNamespace(
            dag_id="d",
            run_id="r",
            task_id=task_id,
            map_index=index,
            xcom_pull=pull,
            xcom_push=lambda *, key, value: self.results.update({(task_id, index, key): value}),
        )
        store = self.stores.setdefault((task_id, index), FakeStore())
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


def theirs(*triggers: dict[str, Any]) -> dict[str, Any]:
    """Return their object with other triggers."""
    return {**THEIRS, "spec": {**THEIRS["spec"], "triggers": list(triggers)}}


LOGIN = {
    "sasl": "oauthbearer",
    "saslTokenProvider": "aws_msk_iam",
    "awsRegion": "eu-central-1",
    "tls": "enable",
    "unsafeSsl": "true",
    "version": "3.6.0",
    "fullMetadata": "false",
    "ofAFutureKeda": "1",
}
THEIR_SCALING = {"lagThreshold": "5", "activationLagThreshold": "7", "partitionLimitation": "1-3"}
THEIR_SCALING |= {"allowIdleConsumers": "true", "offsetResetPolicy": "latest"}


@pytest.mark.parametrize("name", ["mine", "persistent-lag"])
def test_everything_by_which_kafka_is_reached_stays(world: World, policy: str, name: str) -> None:
    """Login, encryption and version, also what no list knows; of its scaling nothing does."""
    source = {"bootstrapServers": "k:9093", "topicFromEnv": "TOPIC", "consumerGroup": "shop"}
    login = {"authenticationRef": {"name": "kafka-login"}}
    metadata = {**source, **LOGIN, **THEIR_SCALING}
    world.kube.apply(theirs({"type": "kafka", "metadata": metadata, **login}))

    Dag(world).run("swap", policy=policy if name == "mine" else name)

    (trigger,) = in_force(world)["spec"]["triggers"]
    metadata = trigger["metadata"]
    assert (source | LOGIN).items() <= metadata.items()
    assert "topic" not in metadata
    assert metadata["lagThreshold"] == ("100" if name == "mine" else "500")
    assert not {"activationLagThreshold", "partitionLimitation", "allowIdleConsumers"} & {*metadata}
    assert ("sustainSeconds" in metadata) is ("scalerAddress" in metadata) is (name != "mine")


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        ([{"topic": "orders"}, {"topic": "payments"}], [{}]),
        ([{"topic": "orders"}, {"topic": None, "topicFromEnv": "MORE"}], [{}]),
        ([{"bootstrapServers": "a:9092"}, {"bootstrapServers": "b:9092"}], [{}]),
        ([{}], [{"topic": "orders"}, {"topic": "payments"}]),
    ],
)
def test_an_object_of_several_sources_is_not_replaced(
    world: World, tmp_path: Path, live: Any, wanted: Any
) -> None:
    """One of them would be read for all; the object stays as it is."""
    before = theirs(*(kafka(**given) for given in live))
    world.kube.apply(before)
    path = tmp_path / "several.yaml"
    triggers = [kafka(**given) for given in wanted]
    theirs_spec: Any = SCALED_OBJECT["spec"]
    spec = {**theirs_spec, "triggers": triggers}
    path.write_text(yaml.safe_dump({**SCALED_OBJECT, "spec": spec}))

    with pytest.raises(AirflowFailException, match=r"spec\.triggers"):
        Dag(world).run("swap", policy=str(path))

    assert in_force(world)["spec"] == before["spec"]


def test_two_triggers_on_one_source_are_no_reason_to_refuse(world: World, policy: str) -> None:
    """A second threshold, and a policy without Kafka in place of several topics."""
    world.kube.apply(theirs(kafka(topic="orders", lagThreshold="9"), kafka(topic="orders")))
    Dag(world).run("swap", policy=policy)
    assert in_force(world)["spec"]["triggers"][0]["metadata"]["topic"] == "orders"

    world.kube.apply(theirs(kafka(topic="orders"), kafka(topic="payments")))
    Dag(world).run("other", policy="cpu-only")


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

    assert dag.results["swap", -1, BEFORE]["policy"]["spec"] == THEIRS["spec"]
    assert dag.run("swap", policy=policy, wait=False)["hpa"] is None
    assert dag.results["swap", -1, BEFORE]["policy"]["spec"] == THEIRS["spec"]


def test_what_a_swap_has_created_is_deleted(world: World, policy: str) -> None:
    """Nothing was there before."""
    dag = Dag(world)
    dag.run("swap", policy=policy)
    assert in_force(world)["spec"]["scaleTargetRef"] == {"name": "consumer"}

    dag.run("restore", undo="swap")

    assert ("ScaledObject", NAME) not in world.kube.objects


def test_a_swap_that_changed_nothing_leaves_nothing_to_take_back(dag: Dag) -> None:
    """The teardown runs without its swap, too: it is skipped, and says so."""
    with pytest.raises(AirflowSkipException, match="swap"):
        dag.run("restore", undo="swap")
    assert in_force(dag.world)["spec"] == THEIRS["spec"]


def test_mapped_tasks_are_taken_back_each_by_its_own(dag: Dag, policy: str) -> None:
    """A mapped group over two objects, also after a retry of one of them."""
    other = {**THEIRS, "metadata": {"name": "payments"}}
    dag.world.kube.apply(other)
    objects = (NAME, "payments")
    for index in (0, 1, 0):
        dag.run("swap", index=index, policy=policy, scaled_object=objects[index])
    assert in_force(dag.world)["spec"] != THEIRS["spec"]

    for index, name in enumerate(objects):
        dag.run("restore", index=index, undo="swap", scaled_object=name)
        assert dag.world.kube.objects["ScaledObject", name]["spec"] == THEIRS["spec"]


def test_one_task_takes_a_mapped_swap_back(dag: Dag, policy: str) -> None:
    """Several policies on one object, and a retry of the first after the second."""
    for index, name in ((0, policy), (1, "lag-default"), (0, policy)):
        dag.run("swap", index=index, policy=name)

    dag.run("restore", undo="swap")

    assert in_force(dag.world)["spec"] == THEIRS["spec"]


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
