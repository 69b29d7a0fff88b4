"""Consumers and recorder are started, and everything is removed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from tests.fakes.fake_kube import FakeKube
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import (
    SCALED_OBJECT,
    SCENARIO,
    SERVERS,
    World,
    change_scenario,
    start,
)

from lagbench.adapters.clean_up import Removed, remove_everything
from lagbench.adapters.kube import cluster_check as manifest_files
from lagbench.adapters.kube import workloads as ready_pods
from lagbench.adapters.kube.workloads import wait_ready
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.embedded.broker import ProxiedListener
from lagbench.errors import NotReady, PodsRefused, StillWaiting
from lagbench_airflow.hooks.kube import EmbeddedAccess
from lagbench_airflow.operators import run_consumers
from lagbench_airflow.operators.run_spark_consumer import start_spark
from lagbench_airflow.operators.start_companions import Place
from lagbench_airflow.task_life import wrong_input_is_final


def remove_all(world: World, *, is_embedded: bool = True) -> Removed:
    """Remove what runs have left."""
    admin: Any = world.admin
    kube: Any = world.kube
    return remove_everything(kube, admin, lambda _: None, is_embedded=is_embedded)


def test_a_limit_range_that_throttles_the_consumers_ends_the_run(world: World) -> None:
    """The message names container, limit and LimitRange; without a default all is as written."""
    world.kube.default_cpu_limit = "500m"
    limits = [{"type": "Container", "default": {"cpu": "500m"}}]
    team = {"kind": "LimitRange", "metadata": {"name": "team"}, "spec": {"limits": limits}}
    world.kube.objects["LimitRange", "team"] = team

    with pytest.raises(AirflowFailException) as failed:
        start(world)
    for named in ("Pod/consumer-0", "container consumer", "'500m'", "LimitRange/team"):
        assert named in str(failed.value)


@pytest.mark.parametrize(("access", "seconds"), [(EmbeddedAccess("k", {}), 60), (None, 300)])
def test_pods_of_a_cluster_may_wait_for_a_node_and_an_image(
    world: World, access: EmbeddedAccess | None, seconds: int
) -> None:
    """On the embedded bench pods are processes: a longer wait would only report a failure later."""
    kube: Any = world.kube
    assert Place(kube, RunTarget(world.names, SERVERS), access).start_seconds == seconds


@pytest.mark.parametrize(
    ("spec", "waited"), [({"terminationGracePeriodSeconds": 600}, 630), ({}, 180)]
)
def test_the_clean_up_waits_as_long_as_a_pod_may_take(
    world: World, spec: dict[str, int], waited: int
) -> None:
    """A user's pod that works to the end of a long grace period is no failure of the clean-up."""
    labels = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply({"kind": "Pod", "metadata": {"name": "mine", "labels": labels}, "spec": spec})

    with pytest.raises(StillWaiting, match=f"waited {waited} s for Pod"):
        remove_all(world)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_nothing_is_left(world: World, kind: str) -> None:
    """Consumers start at the policy's floor; removing leaves no workload, topic or group of a run.

    Twice is fine. A policy of the same name without a run's label is not a run's to delete.
    """
    change_scenario(world, consumer={"workload": kind})
    start(world)
    assert world.kube.objects[kind, "consumer"]["spec"]["replicas"] == 2
    labels = world.kube.objects["Pod", "consumer-0"]["metadata"]["labels"]
    assert labels["lagbench.io/run-id"] == world.names.run_id
    world.kube.apply(SCALED_OBJECT | {"metadata": {"name": "consumer", "labels": {}}})
    world.admin.groups |= {world.names.group: {}, "enrich.orders": {}}
    world.admin.topics["someone-elses"] = {0: 0}

    removed, again = remove_all(world), remove_all(world)

    assert sorted(removed.workloads) == sorted(["Deployment/recorder", f"{kind}/consumer"])
    assert removed.groups == [world.names.group]
    assert {kind for kind, _ in world.kube.objects} == {"ScaledObject", "HorizontalPodAutoscaler"}
    assert list(world.admin.topics) == ["someone-elses"]
    assert list(world.admin.groups) == ["enrich.orders"]
    assert (again.workloads, again.topics, again.groups) == ([], [], [])


@pytest.mark.parametrize(("aliases", "is_on"), [(None, False), (True, True)])
def test_a_cluster_gets_the_companions_and_gives_them_back(
    world: World, aliases: bool | None, is_on: bool
) -> None:
    """The disruption budget, image and servers; aliases of metrics must be asked for there."""
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "consumer"}, "spec": {}}
    (manifest_files.BASE / "consumer" / "budget.yaml").write_text(yaml.safe_dump(budget))
    image, servers = "example.com/programs:1", "kafka:9092"
    world.cluster = ClusterSettings(
        namespace="spikes", image=image, bootstrap_servers=servers, metric_aliases=aliases
    )
    start(world)

    stored = world.kube.objects["PodDisruptionBudget", "consumer"]["metadata"]
    assert (stored["namespace"], stored["labels"][RUN_ID_LABEL]) == ("spikes", world.names.run_id)
    pod = world.kube.objects["Deployment", "consumer"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == image
    assert {"name": "KAFKA_BOOTSTRAP_SERVERS", "value": servers} in pod["containers"][0]["env"]
    recorder = world.kube.objects["Deployment", "recorder"]
    assert document_of(recorder)["has_metric_aliases"] is is_on
    removed = remove_all(world, is_embedded=False)
    assert "PodDisruptionBudget/consumer" in removed.workloads


def test_a_pod_that_is_not_ready_says_why(world: World) -> None:
    """The message has its conditions, what its container waits for, and the end of each log.

    Of several containers the API server gives no log without the container's name.
    """
    kube: Any = world.kube
    kube.objects["Deployment", "recorder"] = {"metadata": {"name": "recorder"}, "status": {}}
    kube.objects["Pod", "recorder-0"] = {
        "metadata": {"name": "recorder-0"},
        "spec": {"containers": [{"name": "app"}, {"name": "proxy"}]},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "Ready", "status": "False", "message": "not [recorder]"}],
            "containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}],
        },
    }
    kube.logs = {"recorder-0.app": "first\nlast\n", "recorder-0.proxy": "up\n"}

    with pytest.raises(StillWaiting) as late:
        wait_ready(kube, "recorder", 1)
    for named in ("Pod/recorder-0: Pending", "not [recorder]", "ErrImagePull"):
        assert named in str(late.value)
    said = r"recorder-0\.app .*first \| last.*recorder-0\.proxy .*up$"
    assert re.search(said, str(late.value))


@pytest.mark.parametrize(
    ("limit", "generation", "said"),
    [(0.0, 1, ""), (5.0, 1, "FailedCreate"), (0.0, 2, "waited")],
)
def test_refused_pods_end_the_wait(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: float, generation: int, said: str
) -> None:
    """The message has workload, reason, Kubernetes' words and the file to change; no retry.

    Kubernetes tries again; a new spec is not refused before its controller has seen it.
    """
    recorded = Path(__file__).parents[2] / "data" / "refused_pods" / "pod_security.json"
    refused = json.loads(recorded.read_text())
    refused["metadata"]["generation"] = generation
    world.kube.objects["Deployment", "consumer"] = refused
    monkeypatch.setattr(ready_pods, "REFUSED_SECONDS", limit)
    kube: Any = world.kube

    if said:
        with pytest.raises(StillWaiting, match=said) as late:
            wait_ready(kube, "consumer", 2)
        assert ("FailedCreate" in str(late.value)) is (generation == 1)
        return
    with pytest.raises(AirflowFailException) as failed, wrong_input_is_final():
        wait_ready(kube, "consumer", 2, written_in="orders.yaml")
    assert isinstance(failed.value.__cause__, PodsRefused)
    for named in ("Deployment/consumer", "runAsNonRoot=true", "orders.yaml", "FailedCreate"):
        assert named in str(failed.value)


CHECKED = checked_cell("spark_consumer")
CLAIM = "PersistentVolumeClaim/lagbench-spark-checkpoint"


class ClusterKube(FakeKube):
    """Gives every Service an address and an identity, as an API server does."""

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return a copy."""
        found = super().get(kind, name)
        if found is not None and kind == "Service":
            found["spec"]["clusterIP"] = "10.96.0.7"
            found["metadata"]["uid"] = f"uid-of-{name}"
        return found


def started_spark(storage_class: str | None = None, kube: ClusterKube | None = None) -> ClusterKube:
    """Start all parts of a consumer on Spark; return what the cluster has then."""
    kube = kube or ClusterKube()
    settings = ClusterSettings(storage_class=storage_class)
    place: Any = Place(kube, RunTarget(RunNames("a-run"), "kafka:9092", settings), None)  # type: ignore[arg-type]
    floor = CHECKED.policy.limits.floor_replicas
    start_spark(place, CHECKED.scenario, floor, checkpoint=Path("/checkpoint"))
    return kube


@pytest.mark.parametrize(("storage_class", "claims"), [(None, [CLAIM]), ("none", [])])
def test_the_parts_of_spark_come_in_order(storage_class: str | None, claims: list[str]) -> None:
    """The Service and what pods mount first; then master, workers, driver.

    Only the claim outlives the run: everything else has the run's label.
    """
    kube = started_spark(storage_class)

    assert [call.split(" ", 1)[1] for call in kube.calls] == [
        "Service/spark-stream-master",
        "PodDisruptionBudget/consumer",
        *claims,
        "Secret/spark-stream-a-run",
        "Deployment/spark-stream-master",
        "Deployment/consumer",
        "Deployment/spark-stream-driver",
    ]
    kept = [
        f"{kind}/{name}"
        for (kind, name), found in kube.objects.items()
        if RUN_ID_LABEL not in (found["metadata"].get("labels") or {})
    ]
    assert kept == claims


def test_the_pods_of_spark_share_a_secret_of_the_run() -> None:
    """All three read it; a retry keeps it; it ends with the Service; each run draws another.

    Workers and driver get the address of the Service, not its name: a cluster need have no DNS. A
    claim that exists stays as it is: its class cannot change.
    """
    kube = started_spark("slow")
    secret = kube.objects["Secret", "spark-stream-a-run"]
    started_spark("fast", kube)
    other = started_spark().objects["Secret", "spark-stream-a-run"]

    assert kube.objects["Secret", "spark-stream-a-run"] == secret
    assert len(secret["stringData"]["secret"]) >= 64
    assert other["stringData"] != secret["stringData"]
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Service", "uid-of-spark-stream-master")
    reference = {"secretKeyRef": {"name": secret["metadata"]["name"], "key": "secret"}}
    for name in ("spark-stream-master", "consumer", "spark-stream-driver"):
        pod = kube.objects["Deployment", name]["spec"]["template"]["spec"]
        variables = {entry["name"]: entry for entry in pod["containers"][0]["env"]}
        assert variables["_SPARK_AUTH_SECRET"]["valueFrom"] == reference
        if name != "spark-stream-master":
            assert variables["SPARK_STREAM_MASTER_URL"]["value"] == "spark://10.96.0.7:7077"
    claim = kube.objects["PersistentVolumeClaim", "lagbench-spark-checkpoint"]
    assert claim["spec"]["storageClassName"] == "slow"


CUT = {"kind": "broker_unreachable", "at_seconds": 1, "for_seconds": 1}
RESTART = {"kind": "broker_restart", "at_seconds": 1, "for_seconds": 1}
LISTENER = ProxiedListener(port=9094, advertised_port=9095)


def test_only_consumers_whose_way_is_disturbed_take_the_other_listener(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No other run is slowed by an idle proxy; a bench of an earlier version has no listener."""

    def listener(*actions: dict[str, Any]) -> ProxiedListener | None:
        scenario = Scenario.model_validate(SCENARIO | {"actions": list(actions)})
        return run_consumers.listener_behind_proxy(scenario)

    states: list[Any] = [SimpleNamespace(proxied=LISTENER), SimpleNamespace(proxied=None), None]
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: states[0])
    assert (listener(), listener(RESTART), listener(CUT)) == (None, None, LISTENER)
    while states.pop(0) and states:
        with pytest.raises(NotReady, match="lagbench down"):
            listener(CUT)
