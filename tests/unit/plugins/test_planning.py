"""A run's topics, and what tells its cell."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.unit.plugins.conftest import SERVERS, World

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import checked_cell, load_policy
from lagbench.catalog.own_consumers import read_own_deployment
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.compare.cell_identity import content_digest
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT
from lagbench.results.baseline import cell_of
from lagbench_airflow import planning, run_topics
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.hooks import kafka
from lagbench_airflow.hooks import target as targets


@pytest.fixture
def cell(world: World, monkeypatch: pytest.MonkeyPatch) -> CellRun:
    """Return the world's run, whose topics reach the world."""
    monkeypatch.setattr(run_topics, "KafkaHook", kafka.KafkaHook)
    monkeypatch.setattr(run_topics, "settings_of_cluster", lambda *_: world.cluster)
    return CellRun.open(str(world.folder.path))


def test_topics_keep_everything_whatever_the_broker_s_defaults(world: World, cell: CellRun) -> None:
    """Neither age nor size drops a message, and one replica in sync is enough for a write."""
    run_topics.create_run_topics(cell)

    kept: dict[str, Any] = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "min.insync.replicas": "1",
    }
    assert {name: dict(spec.configs) for name, spec in world.admin.specs.items()} == dict.fromkeys(
        world.names.topics, kept
    )


@pytest.mark.parametrize(("setting", "factor"), [(None, -1), (3, 3)])
def test_replicas_of_topics_are_a_setting_of_the_cluster(
    world: World, cell: CellRun, setting: int | None, factor: int
) -> None:
    """Left out, the broker's default holds."""
    world.cluster = ClusterSettings(bootstrap_servers=SERVERS, replication_factor=setting)

    run_topics.create_run_topics(cell)

    assert {spec.replication_factor for spec in world.admin.specs.values()} == {factor}


@pytest.mark.parametrize(
    ("is_embedded", "extra", "target"),
    [
        (True, {"kube_config_path": "/bench"}, "embedded"),
        (False, {"cluster_context": "blue"}, "context:blue"),
        (False, {"in_cluster": True}, "context:in_cluster"),
    ],
)
def test_a_planned_run_reports_its_cell(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    *,
    is_embedded: bool,
    extra: dict[str, Any],
    target: str,
) -> None:
    """The manifest has the digests of the policy's file and of the target's name."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setattr(targets, "is_embedded", lambda: is_embedded)
    connection = SimpleNamespace(extra_dejson=extra)
    monkeypatch.setattr(targets, "connection", lambda _: connection)
    monkeypatch.setattr(planning, "settings_of_cluster", ClusterSettings)

    planned = planning.plan_run({"scenario": "quick_spike"}, dag_run="d")

    folder = RunFolder(tmp_path / planned["run_id"])
    assert folder.read_json(folder.manifest)["cell"] == {
        "policy": content_digest(load_policy(planned["policy"]).manifest),
        "target": content_digest(target),
    }
    cell = cell_of(folder)
    folder.write_text(folder.policy, "the policy as applied, with the run's own names")
    assert cell is not None
    assert cell_of(folder) == cell


def test_a_policy_without_a_log_in_is_refused_on_a_secured_kafka(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also for a run that nobody started with lagbench run: KEDA could not read its lag."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setattr(targets, "is_embedded", lambda: False)
    secured = ClusterSettings(kafka_secret="kafka-login")  # noqa: S106 - the name of an object
    monkeypatch.setattr(planning, "settings_of_cluster", lambda: secured)

    with pytest.raises(WrongInput, match="authenticationRef"):
        planning.plan_run({"scenario": "quick_spike"}, dag_run="d")

    assert list(tmp_path.iterdir()) == []


def plan_embedded_runs(monkeypatch: pytest.MonkeyPatch, runs: Path) -> None:
    """Let runs be planned for the embedded bench, into ``runs``."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(runs))
    monkeypatch.setattr(targets, "is_embedded", lambda: True)
    connection = SimpleNamespace(extra_dejson={"kube_config_path": "/bench"})
    monkeypatch.setattr(targets, "connection", lambda _: connection)


def test_the_samples_are_kept_as_they_were_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The run folder has the file; one that changed after its check ends the plan."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")
    monkeypatch.setattr(planning, "settings_of_cluster", ClusterSettings)
    file = tmp_path / "orders.jsonl"
    file.write_text('{"customer": "é"}\n', encoding="utf-8")
    params = {"scenario": "own_messages", "overrides": {}}
    overrides = {"payload.file": str(file), "payload.key_field": "customer"}
    monkeypatch.setattr(planning, "settings_of", lambda _: overrides)

    folder = RunFolder(tmp_path / "runs" / planning.plan_run(params, dag_run="d")["run_id"])
    checked = checked_cell("own_messages", overrides=overrides)
    file.write_text('{"customer": "another"}\n', encoding="utf-8")
    monkeypatch.setattr(planning, "checked_cell", lambda *_, **__: checked)

    assert folder.payload.read_text(encoding="utf-8") == '{"customer": "é"}\n'
    with pytest.raises(WrongInput, match=r"payload\.file"):
        planning.plan_run(params, dag_run="d")


def test_only_the_owner_reads_a_manifest_with_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The run folder has the values, from which localkube makes the Secret of the pods."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")
    data = PROJECT_ROOT / "tests" / "data"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}}
    deployment = (data / "own_consumers" / "wrong-consumer.yaml").read_text()
    manifest = f"{deployment}---\n{yaml.safe_dump(secret | {'stringData': {'key': 'hush'}})}"
    (tmp_path / "own.yaml").write_text(manifest)
    scenario = yaml.safe_load((data / "scenarios" / "tiny_own.yaml").read_text())
    scenario["consumer"] |= {"manifest": "own.yaml"}
    scenario["payload"]["file"] = str(data / "scenarios" / "tiny_orders.jsonl")
    scenario["allow_overscale"] = True
    (tmp_path / "tiny_own.yaml").write_text(yaml.safe_dump(scenario))

    planned = planning.plan_run({"scenario": str(tmp_path / "tiny_own.yaml")}, dag_run="d")

    folder = RunFolder(Path(planned["run_folder"]))
    assert folder.own_deployment.stat().st_mode & 0o777 == 0o600
    own = read_own_deployment(
        folder.own_deployment, CellRun.open(str(folder.path)).scenario.consumer
    )
    assert own.secrets["login"]["stringData"] == {"key": "hush"}


def test_an_unknown_key_of_the_conf_ends_the_plan(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is planned, so that no default is measured in place of what was meant."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))

    with pytest.raises(WrongInput, match="polcy"):
        planning.plan_run({"scenario": "quick_spike", "polcy": "lag-quick"}, dag_run="d")

    assert not (tmp_path / "runs").exists()
