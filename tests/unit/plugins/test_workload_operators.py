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
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_kube import FakeKube
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import SCALED_OBJECT, SCENARIO, SERVERS, World
from tests.unit.plugins.started_workloads import as_stateful_set, start

from lagbench.adapters.kube import cluster_check as manifest_files
from lagbench.adapters.kube import workloads as ready_pods
from lagbench.adapters.kube.workloads import Removed, remove_everything, wait_ready
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.embedded.broker import ProxiedListener
from lagbench.errors import NotReady, PodsRefused, StillWaiting
from lagbench_airflow.hooks.kube import EmbeddedAccess
from lagbench_airflow.operators import run_consumers
from lagbench_airflow.operators.run_consumers import start_spark
from lagbench_airflow.operators.start_companions import Place
from lagbench_airflow.task_life import wrong_input_is_final


def test_consumers_start_at_the_policy_s_floor(world: World) -> None:
    """The Deployment starts with minReplicaCount pods and takes the run's label."""
    start(world)

    assert world.kube.objects["Deployment", "consumer"]["spec"]["replicas"] == 2
    labels = world.kube.objects["Pod", "consumer-0"]["metadata"]["labels"]
    assert labels["lagbench.io/run-id"] == world.names.run_id


def test_a_limit_range_that_throttles_the_consumers_ends_the_run(world: World) -> None:
    """The message names container, limit and LimitRange; without a default all is as written."""
    world.kube.default_cpu_limit = "500m"
    world.kube.objects["LimitRange", "team"] = {
        "kind": "LimitRange",
        "metadata": {"name": "team"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]},
    }

    with pytest.raises(AirflowFailException) as failed:
        start(world)

    for named in ("Pod/consumer-0", "container consumer", "'500m'", "LimitRange/team"):
        assert named in str(failed.value)


@pytest.mark.parametrize(("is_embedded", "seconds"), [(True, 60), (False, 300)])
def test_pods_of_a_cluster_may_wait_for_a_node_and_an_image(
    world: World, *, is_embedded: bool, seconds: int
) -> None:
    """On the embedded bench pods are processes: a longer wait would only report a failure later."""
    access = EmbeddedAccess("kubeconfig", {}) if is_embedded else None
    target = RunTarget(world.names, SERVERS)

    assert Place(world.kube, target, access).start_seconds == seconds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spec", "waited"),
    [({"terminationGracePeriodSeconds": 600}, 630), ({}, 180)],
)
def test_the_clean_up_waits_as_long_as_a_pod_may_take(
    world: World, spec: dict[str, int], waited: int
) -> None:
    """A user's pod that works to the end of a long grace period is no failure of the clean-up."""
    labels = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply({"kind": "Pod", "metadata": {"name": "mine", "labels": labels}, "spec": spec})

    with pytest.raises(StillWaiting, match=f"waited {waited} s for Pod"):
        _remove_everything(world)


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_nothing_is_left(world: World, kind: str) -> None:
    """Removing leaves no workload, topic or group of any run, whatever its kind; twice is fine."""
    if kind == "StatefulSet":
        as_stateful_set(world)
    start(world)
    world.admin.groups[world.names.group] = {}
    world.admin.groups["enrich.orders"] = {}
    world.admin.topics["someone-elses"] = {0: 0}

    removed, again = _remove_everything(world), _remove_everything(world)

    assert sorted(removed.workloads) == sorted(["Deployment/recorder", f"{kind}/consumer"])
    assert removed.groups == [world.names.group]
    assert not world.kube.objects
    assert list(world.admin.topics) == ["someone-elses"]
    assert list(world.admin.groups) == ["enrich.orders"]
    assert (again.workloads, again.topics, again.groups) == ([], [], [])


def test_a_policy_of_somebody_else_stays(world: World) -> None:
    """A ScaledObject of the policy's name without a run's label is not a run's to delete."""
    world.kube.apply(SCALED_OBJECT | {"metadata": {"name": "consumer", "labels": {}}})

    assert _remove_everything(world).workloads == []
    assert ("ScaledObject", "consumer") in world.kube.objects


def test_a_cluster_gets_the_disruption_budget_and_gives_it_back(world: World) -> None:
    """Off the embedded bench the consumers' companions are made and removed with the run."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "consumer"},
        "spec": {"maxUnavailable": 1},
    }
    (manifest_files.BASE / "consumer" / "budget.yaml").write_text(yaml.safe_dump(budget))
    world.cluster = ClusterSettings(
        namespace="spikes", image="example.com/programs:1", bootstrap_servers="kafka:9092"
    )

    start(world)

    stored = world.kube.objects["PodDisruptionBudget", "consumer"]["metadata"]
    assert (stored["namespace"], stored["labels"][RUN_ID_LABEL]) == ("spikes", world.names.run_id)
    container = world.kube.objects["Deployment", "consumer"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert container["image"] == "example.com/programs:1"
    assert {"name": "KAFKA_BOOTSTRAP_SERVERS", "value": "kafka:9092"} in container["env"]
    removed = remove_everything(world.kube, world.admin, lambda _: None, is_embedded=False)  # type: ignore[arg-type]
    assert "PodDisruptionBudget/consumer" in removed.workloads


@pytest.mark.parametrize(("asked", "is_on"), [(None, False), (True, True)])
def test_on_a_cluster_aliases_of_metrics_must_be_asked_for(
    world: World, asked: bool | None, is_on: bool
) -> None:
    """The exporters whose names they bear may run there; the connection's setting decides."""
    world.cluster = ClusterSettings(metric_aliases=asked)

    start(world)

    recorder = world.kube.objects["Deployment", "recorder"]
    assert document_of(recorder)["has_metric_aliases"] is is_on


def _remove_everything(world: World) -> Removed:
    return remove_everything(world.kube, world.admin, lambda _: None, is_embedded=True)  # type: ignore[arg-type]


def test_a_pod_that_is_not_ready_says_why(world: World) -> None:
    """The message has its conditions, what its container waits for, and the end of each log.

    Of several containers the API server gives no log without the container's name.
    """
    kube = world.kube
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
        wait_ready(kube, "recorder", 1)  # type: ignore[arg-type]

    for named in ("Pod/recorder-0: Pending", "not [recorder]", "ErrImagePull"):
        assert named in str(late.value)
    said = r"recorder-0\.app .*first \| last.*recorder-0\.proxy .*up$"
    assert re.search(said, str(late.value))


@pytest.fixture
def refused(world: World) -> World:
    """Return a world whose consumers are refused, as Kubernetes 1.34 reported it."""
    recorded = Path(__file__).parents[2] / "data" / "refused_pods" / "pod_security.json"
    world.kube.objects["Deployment", "consumer"] = json.loads(recorded.read_text())
    return world


def test_refused_pods_end_the_wait(refused: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has workload, reason, Kubernetes' words and the file to change; no retry."""
    monkeypatch.setattr(ready_pods, "REFUSED_SECONDS", 0.0)

    with pytest.raises(AirflowFailException) as failed, wrong_input_is_final():
        wait_ready(refused.kube, "consumer", 2, written_in="orders.yaml")  # type: ignore[arg-type]

    assert isinstance(failed.value.__cause__, PodsRefused)
    for named in ("Deployment/consumer", "runAsNonRoot=true", "orders.yaml", "FailedCreate"):
        assert named in str(failed.value)


@pytest.mark.parametrize(("limit", "generation"), [(5.0, 1), (0.0, 2)])
def test_a_refusal_may_pass_or_be_of_an_earlier_spec(
    refused: World, monkeypatch: pytest.MonkeyPatch, limit: float, generation: int
) -> None:
    """Kubernetes tries again; a new spec is not refused before its controller has seen it."""
    monkeypatch.setattr(ready_pods, "REFUSED_SECONDS", limit)
    refused.kube.objects["Deployment", "consumer"]["metadata"]["generation"] = generation

    with pytest.raises(StillWaiting) as late:
        wait_ready(refused.kube, "consumer", 2)  # type: ignore[arg-type]
    assert ("FailedCreate" in str(late.value)) is (generation == 1)


CELL: Any = SimpleNamespace(
    scenario=checked_cell("spark_consumer").scenario, policy=checked_cell("spark_consumer").policy
)

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


def start_of_run_consumers(
    settings: ClusterSettings, kube: ClusterKube | None = None
) -> ClusterKube:
    """Start all parts; return what the cluster has then."""
    kube = kube or ClusterKube()
    target = RunTarget(RunNames("a-run"), "kafka:9092", settings)
    start_spark(CELL, Place(kube, target, None))  # type: ignore[arg-type]
    return kube


@pytest.mark.parametrize(("storage_class", "claims"), [(None, [CLAIM]), ("none", [])])
def test_the_parts_come_in_order(storage_class: str | None, claims: list[str]) -> None:
    """The Service and what pods mount first; then master, workers, driver."""
    kube = start_of_run_consumers(ClusterSettings(storage_class=storage_class))

    assert [call.split(" ", 1)[1] for call in kube.calls] == [
        "Service/spark-stream-master",
        "PodDisruptionBudget/consumer",
        *claims,
        "Secret/spark-stream-a-run",
        "Deployment/spark-stream-master",
        "Deployment/consumer",
        "Deployment/spark-stream-driver",
    ]


def test_only_the_claim_outlives_the_run() -> None:
    """Everything else has the run's label, by which it is removed."""
    kube = start_of_run_consumers(ClusterSettings())

    kept = [
        f"{kind}/{name}"
        for (kind, name), found in kube.objects.items()
        if RUN_ID_LABEL not in (found["metadata"].get("labels") or {})
    ]
    assert kept == [CLAIM]


def test_the_pods_share_a_secret_of_the_run() -> None:
    """All three read it; a retry keeps it; it ends with the Service; each run draws another."""
    kube = start_of_run_consumers(ClusterSettings())
    secret = kube.objects["Secret", "spark-stream-a-run"]
    start_of_run_consumers(ClusterSettings(), kube)
    other = start_of_run_consumers(ClusterSettings()).objects["Secret", "spark-stream-a-run"]

    assert kube.objects["Secret", "spark-stream-a-run"] == secret
    assert len(secret["stringData"]["secret"]) >= 64
    assert other["stringData"] != secret["stringData"]
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Service", "uid-of-spark-stream-master")
    for name in ("spark-stream-master", "consumer", "spark-stream-driver"):
        container = kube.objects["Deployment", name]["spec"]["template"]["spec"]["containers"][0]
        (variable,) = (e for e in container["env"] if e["name"] == "_SPARK_AUTH_SECRET")
        reference = {"name": secret["metadata"]["name"], "key": "secret"}
        assert variable == {
            "name": "_SPARK_AUTH_SECRET",
            "valueFrom": {"secretKeyRef": reference},
        }


def test_a_claim_that_exists_stays_as_it_is() -> None:
    """Its class cannot change: a run with another one would be rejected by the API server."""
    kube = start_of_run_consumers(ClusterSettings(storage_class="slow"))

    start_of_run_consumers(ClusterSettings(storage_class="fast"), kube)

    claim = kube.objects["PersistentVolumeClaim", "lagbench-spark-checkpoint"]
    assert claim["spec"]["storageClassName"] == "slow"


def test_workers_and_driver_get_the_address_of_the_service() -> None:
    """Not its name: a cluster without DNS for pods runs it, too."""
    kube = start_of_run_consumers(ClusterSettings())

    for name in ("consumer", "spark-stream-driver"):
        container = kube.objects["Deployment", name]["spec"]["template"]["spec"]["containers"][0]
        variables = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert variables["SPARK_STREAM_MASTER_URL"] == "spark://10.96.0.7:7077"


CUT = {"kind": "broker_unreachable", "at_seconds": 1, "for_seconds": 1}

RESTART = {"kind": "broker_restart", "at_seconds": 1, "for_seconds": 1}

LISTENER = ProxiedListener(port=9094, advertised_port=9095)


def scenario(*actions: dict[str, Any]) -> Scenario:
    """Return the scenario of the operators' tests with these actions."""
    return Scenario.model_validate(SCENARIO | {"actions": list(actions)})


@pytest.mark.parametrize(("actions", "found"), [((), None), ((RESTART,), None), ((CUT,), LISTENER)])
def test_only_consumers_whose_way_is_disturbed_take_the_other_listener(
    actions: tuple[dict[str, Any], ...],
    found: ProxiedListener | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run without such an action is not even slowed by an idle proxy."""
    state = SimpleNamespace(proxied=LISTENER)
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: state)

    assert run_consumers.listener_behind_proxy(scenario(*actions)) == found


@pytest.mark.parametrize("state", [None, SimpleNamespace(proxied=None)])
def test_a_bench_without_the_listener_says_what_to_do(
    state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bench that an earlier version started has none."""
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: state)

    with pytest.raises(NotReady, match="lagbench down"):
        run_consumers.listener_behind_proxy(scenario(CUT))
