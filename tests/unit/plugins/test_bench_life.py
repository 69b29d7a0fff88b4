"""What ``bench_up`` finds beside the cluster's objects, for tests of that task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_leases import FakeLeases
from tests.unit.plugins.conftest import (
    HPA,
    SCALED_OBJECT,
    SERVERS,
    World,
    change_scenario,
    execute,
    workload,
)

from lagbench.adapters.kube.cluster_lease import HOLDER_NAME, HOLDER_VARIABLE, ClusterLease
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.cluster.spark_connection import SparkPlace
from lagbench.core.hpa.controller_flags import DEFAULT_KUBERNETES, KUBERNETES_ANNOTATION
from lagbench.core.keda.loop.keda_hpa import (
    CONTROLLER,
    KEDA_VERSION,
    SCALED_BY,
    autoscaler_version,
)
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchState, ProcessRecord
from lagbench.embedded.jars import BROKER
from lagbench.embedded.java import find_java
from lagbench.errors import NotReady
from lagbench.results.cell_run import CellRun
from lagbench_airflow import bench_life
from lagbench_airflow.bench_life import is_own_bench, started_versions
from lagbench_airflow.hooks import target
from lagbench_airflow.operators.apply_run_policy import ApplyRunPolicyOperator


def stand_in_for_bench(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_embedded: bool, **others: object
) -> None:
    """Let the task find the world's Kafka and cluster, and in ``others`` what else it asks for."""
    cluster: Any = world.kube
    cluster.server_version = lambda: "v1.34.4"
    spark = SimpleNamespace(place=SparkPlace.KUBERNETES)
    stand_ins: dict[str, object] = {
        "open_kube": lambda **_: world.kube,
        "KafkaHook": lambda: SimpleNamespace(get_conn=lambda: world.admin),
        "SparkTarget": SimpleNamespace(read=lambda _: spark),
        **others,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(bench_life, name, stand_in)
    monkeypatch.setattr(target, "connection", lambda *_: None)
    monkeypatch.setattr(target, "is_embedded", lambda: is_embedded)


def bench_up(world: World) -> dict[str, Any]:
    """Run what the task ``bench_up`` does."""
    return bench_life.bring_bench_up(lambda _: None, cell=CellRun.open(str(world.folder.path)))


@pytest.fixture
def leases(world: World, monkeypatch: pytest.MonkeyPatch) -> FakeLeases:
    """Make the world's bench a cluster that has all a run needs, and return its Leases."""
    leases = FakeLeases()
    cluster: Any = world.kube
    cluster.api_client = SimpleNamespace(configuration=SimpleNamespace(host="https://api"))
    cluster.namespace = "lagbench"
    monkeypatch.setattr(kubernetes.client, "CoordinationV1Api", leases)
    stand_in_for_bench(
        world,
        monkeypatch,
        is_embedded=False,
        settings_of_cluster=lambda: world.cluster,
        check_cluster=lambda *_, **__: None,
        ready_namespace=lambda _: None,
        lease_holder=lambda: "here",
    )
    return leases


def test_a_cell_holds_the_lease_until_its_teardown(world: World, leases: FakeLeases) -> None:
    """Taken for the longest that the scenario can take, renewed by a retry, then given back."""
    bench_up(world)
    bench_up(world)

    assert leases.holder == "here"
    assert leases.lease is not None
    longest = longest_run_seconds(CellRun.open(str(world.folder.path)).scenario)
    assert leases.lease["spec"]["leaseDurationSeconds"] == longest
    bench_life.clean_up(lambda _: None, folder=world.folder, is_last_try=False)
    assert leases.lease is None


@pytest.mark.usefixtures("leases")
def test_the_cluster_is_checked_for_what_the_run_needs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects named actions are only in the way of a run that has actions."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(bench_life, "check_cluster", lambda *_, **given: asked.append(given))
    bench_up(world)
    change_scenario(world, actions=[{"kind": "rolling_restart", "at_seconds": 6}])
    bench_up(world)

    assert [given["has_actions"] for given in asked] == [False, True]
    assert [policy["kind"] for policy in asked[0]["policies"]] == ["ScaledObject"]


def test_nothing_is_swept_without_the_lease(world: World, leases: FakeLeases) -> None:
    """Another Airflow's topics and pods stay when it holds the namespace."""
    ClusterLease(world.kube, "there").acquire("b", duration_seconds=60)  # type: ignore[arg-type]
    world.admin.topics["lagbench.b.events"] = {0: 0}

    with pytest.raises(NotReady, match="there"):
        bench_up(world)

    assert "lagbench.b.events" in world.admin.topics
    assert leases.holder == "there"


def test_a_sweep_that_fails_gives_the_lease_back(
    world: World, leases: FakeLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow runs no teardown of a setup that failed: the namespace is free again.

    The bench by hand, without a cell, sweeps nothing, so it takes nothing.
    """
    bench_life.bring_bench_up(lambda _: None, cell=None)
    assert leases.writes == []
    monkeypatch.setattr(bench_life, "remove_everything", failing("pods stay"))

    with pytest.raises(NotReady, match="pods stay"):
        bench_up(world)
    assert leases.writes == ["create", "delete"]


def failing(text: str) -> Callable[..., None]:
    """Return a function that is not ready."""

    def fail(*_: Any, **__: Any) -> None:
        raise NotReady(text)

    return fail


@pytest.mark.parametrize(("is_last_try", "holder"), [(False, "here"), (True, None)])
def test_a_copy_that_fails_leaves_no_workloads(
    world: World,
    leases: FakeLeases,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_last_try: bool,
    holder: str | None,
) -> None:
    """The topics stay for the next try, and the namespace is free when there is none."""
    monkeypatch.setattr(bench_life, "keep_evidence", failing("the topic returned no record"))
    bench_up(world)
    job = workload("Job", world.names.producer_job)
    for part in (job, job["spec"]["template"]):
        part["metadata"]["labels"] = {RUN_ID_LABEL: world.names.run_id}
    world.kube.apply(job)
    world.admin.topics[world.names.events_topic] = {0: 0}

    with pytest.raises(NotReady, match="no record"):
        bench_life.clean_up(lambda _: None, folder=world.folder, is_last_try=is_last_try)

    assert not world.kube.list("Job")
    assert world.names.events_topic in world.admin.topics
    assert leases.holder == holder


def test_the_holder_of_leases_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task of all stores it, later ones find it, on whatever host.

    An Airflow of lagbench has it in its environment, where Airflow itself reads the Variable.
    """
    stored: dict[str, str] = {}
    monkeypatch.setenv(HOLDER_VARIABLE, "laptop-1a2b3c4d")
    assert bench_life.lease_holder() == "laptop-1a2b3c4d"
    variable = SimpleNamespace(
        get=lambda key, default: stored.get(key) or default,
        set=lambda key, value, description: stored.__setitem__(key, value),
    )
    monkeypatch.setattr(bench_life, "Variable", variable)
    name = bench_life.lease_holder()

    assert stored == {HOLDER_NAME: name}
    assert bench_life.lease_holder() == name


class Machine:
    """A machine on which a bench may run, each with a supervisor of another number."""

    def __init__(self, state_dir: Path) -> None:
        """Begin without one."""
        self.state_dir = state_dir
        self.state: BenchState | None = None
        self._pid = 100

    def running(self, _state_dir: Path) -> BenchState | None:
        """Return the bench that runs."""
        return self.state

    def up(self, _state_dir: Path, **_: object) -> BenchState:
        """Start a bench where none runs."""
        if self.state is None:
            self._pid += 1
            supervisor = ProcessRecord(pid=self._pid, started_at=1.5 * self._pid)
            self.state = BenchState(
                version="1",
                state_dir=self.state_dir,
                started_at=datetime(2026, 11, 21, tzinfo=UTC),
                supervisor=supervisor,
                attached_to=None,
                bootstrap_servers=SERVERS,
                kafka_settings={},
                kafka="foreign",
                broker=None,
                broker_state="running",
                kubeconfig=self.state_dir / "kubeconfig",
                kubernetes_url="https://127.0.0.1:1",
                localkube=None,
                localkube_state="running",
            )
        return self.state


@pytest.fixture
def machine(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine without a bench, on which a cell finds all else."""
    machine = Machine(tmp_path)
    monkeypatch.setattr(bench, "running", machine.running)
    monkeypatch.setattr(bench, "up", machine.up)
    stand_in_for_bench(world, monkeypatch, is_embedded=True)
    return machine


def test_a_retry_knows_what_the_first_try_started(world: World, machine: Machine) -> None:
    """The first try starts the bench and fails; the second finds it up, and it is the run's own."""
    world.admin.is_down = True
    with pytest.raises(NotReady, match="the broker does not answer"):
        bench_up(world)
    world.admin.is_down = False

    assert not bench_up(world)["is_started"]
    assert is_own_bench(world.folder)


@pytest.mark.parametrize("whose", ["a person's of before", "somebody's since", "none any more"])
def test_a_bench_of_somebody_else_stays(world: World, machine: Machine, whose: str) -> None:
    """What was up before the run, or has another supervisor now, is not the run's to stop."""
    if whose == "a person's of before":
        machine.up(machine.state_dir)
    bench_up(world)
    if whose != "a person's of before":
        machine.state = None
    if whose == "somebody's since":
        machine.up(machine.state_dir)

    assert not is_own_bench(world.folder)


OF_KEDA = {"metadata": {"labels": {"app.kubernetes.io/version": "2.99.1"}}}

RULES = {"keda-rules": KEDA_VERSION, "kubernetes-rules": DEFAULT_KUBERNETES}

OLDER = {"annotations": {KUBERNETES_ANNOTATION: "1.34"}}

OURS_INSTEAD = SCALED_OBJECT | {"metadata": {"name": "c", "annotations": {SCALED_BY: CONTROLLER}}}


@pytest.mark.parametrize(("kafka", "broker"), [("embedded", BROKER.version), ("foreign", None)])
def test_versions_are_named_where_they_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kafka: str, broker: str | None
) -> None:
    """A Kafka of somebody else tells no client its version; a driver in a pod has its own Java."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path))
    java = {"java": find_java().version}
    assert started_versions(SparkPlace.LOCAL) == java
    assert started_versions(SparkPlace.KUBERNETES) == {}
    monkeypatch.setattr(bench, "running", lambda _: SimpleNamespace(kafka=kafka))

    assert started_versions(SparkPlace.KUBERNETES).get("kafka-broker") == broker


@pytest.mark.parametrize(
    ("policy", "hpa", "is_embedded", "versions"),
    [
        (SCALED_OBJECT, OF_KEDA, False, {"keda": "2.99.1"}),
        (SCALED_OBJECT, {"metadata": {}}, False, {"keda": "unknown"}),
        (SCALED_OBJECT, OF_KEDA, True, RULES),
        (OURS_INSTEAD, {"metadata": None}, False, RULES),
        (SCALED_OBJECT | {"metadata": OLDER}, OF_KEDA, True, RULES | {"kubernetes-rules": "1.34"}),
        (HPA, OF_KEDA, False, {}),
        (HPA, OF_KEDA, True, {"kubernetes-rules": DEFAULT_KUBERNETES}),
    ],
)
def test_keda_is_distinguished_from_its_rules(
    policy: dict[str, Any], hpa: dict[str, Any], is_embedded: bool, versions: dict[str, str]
) -> None:
    """KEDA's own version is read off the HPA that it made; our autoscaler has the rules of one."""
    assert autoscaler_version(policy, hpa, is_embedded=is_embedded) == versions


def test_keda_s_version_stands_in_the_manifest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Putting the policy into force adds it; the HPA's metadata stay out of hpa.json."""
    made = world.kube._hpa

    def labelled(name: str, owner: dict[str, Any]) -> None:
        made(name, owner)
        metadata = world.kube.objects["HorizontalPodAutoscaler", name]["metadata"]
        metadata.setdefault("labels", {})["app.kubernetes.io/version"] = "2.99.1"

    monkeypatch.setattr(world.kube, "_hpa", labelled)
    execute(ApplyRunPolicyOperator, world)

    assert world.folder.read_json(world.folder.manifest)["versions"]["keda"] == "2.99.1"
    assert set(world.folder.read_json("hpa.json")) == {"name", "spec", "conditions"}
