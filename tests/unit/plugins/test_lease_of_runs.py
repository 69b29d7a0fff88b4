"""How bench_up takes a cluster's Lease, and how remove_workloads gives it back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_leases import FakeLeases
from tests.unit.plugins.bench_world import bench_up, stand_in_for_bench
from tests.unit.plugins.conftest import World, workload

from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.errors import NotReady
from lagbench_airflow import bench_life
from lagbench_airflow.cell_run import CellRun


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
@pytest.mark.parametrize("actions", [[], [{"kind": "rolling_restart", "at_seconds": 6}]])
def test_the_cluster_is_checked_for_what_the_run_needs(
    world: World, monkeypatch: pytest.MonkeyPatch, actions: list[dict[str, Any]]
) -> None:
    """Objects named actions are only in the way of a run that has actions."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(bench_life, "check_cluster", lambda *_, **given: asked.append(given))
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(scenario | {"actions": actions}))

    bench_up(world)

    assert asked[0]["has_actions"] is bool(actions)
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
    """Airflow runs no teardown of a setup that failed: the namespace is free again."""

    def stuck(*_: Any, **__: Any) -> None:
        raise NotReady("pods stay")

    monkeypatch.setattr(bench_life, "remove_everything", stuck)

    with pytest.raises(NotReady, match="pods stay"):
        bench_up(world)

    assert leases.writes == ["create", "delete"]


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

    def silent(*_: Any) -> None:
        raise NotReady("the topic returned no record")

    monkeypatch.setattr(bench_life, "keep_evidence", silent)
    bench_up(world)
    world.kube.apply(labelled_job(world))
    world.admin.topics[world.names.events_topic] = {0: 0}

    with pytest.raises(NotReady, match="no record"):
        bench_life.clean_up(lambda _: None, folder=world.folder, is_last_try=is_last_try)

    assert not world.kube.list("Job")
    assert world.names.events_topic in world.admin.topics
    assert leases.holder == holder


def labelled_job(world: World) -> dict[str, Any]:
    """Return an object of the run."""
    job = workload("Job", world.names.producer_job)
    job["metadata"]["labels"] = {RUN_ID_LABEL: world.names.run_id}
    job["spec"]["template"]["metadata"]["labels"] = {RUN_ID_LABEL: world.names.run_id}
    return job


def test_the_bench_by_hand_takes_nothing(world: World, leases: FakeLeases) -> None:
    """Without a cell nothing is swept, so nothing is taken."""
    bench_life.bring_bench_up(lambda _: None, cell=None)

    assert leases.writes == []
