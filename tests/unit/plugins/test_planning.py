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
from lagbench.catalog.catalog_files import catalog_folder
from lagbench.catalog.experiments import load_experiment
from lagbench.catalog.own_consumers import read_own_deployment
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.compare.cell_identity import content_digest
from lagbench.errors import WrongInput
from lagbench.orchestrator.sealed_conf import seal
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
    monkeypatch.setattr(targets, "connection", lambda *_: connection)
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
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(runs.parent))
    monkeypatch.setattr(targets, "is_embedded", lambda: True)
    connection = SimpleNamespace(extra_dejson={"kube_config_path": "/bench"})
    monkeypatch.setattr(targets, "connection", lambda *_: connection)


def test_the_samples_are_kept_as_they_were_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The run folder has the file; one that changed after its check ends the plan."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")
    monkeypatch.setattr(planning, "settings_of_cluster", ClusterSettings)
    file = tmp_path / "orders.jsonl"
    file.write_text('{"customer": "é"}\n', encoding="utf-8")
    overrides = {"payload.file": str(file), "payload.key_field": "customer"}
    params = {"scenario": "own_messages", "overrides": overrides}

    planned = planning.plan_run(seal(tmp_path, params, dag_run="d"), dag_run="d")
    folder = RunFolder(tmp_path / "runs" / planned["run_id"])
    checked = checked_cell("own_messages", overrides=overrides)
    file.write_text('{"customer": "another"}\n', encoding="utf-8")
    monkeypatch.setattr(planning, "checked_cell", lambda *_, **__: checked)

    assert folder.payload.read_text(encoding="utf-8") == '{"customer": "é"}\n'
    with pytest.raises(WrongInput, match="checked a moment ago"):
        planning.plan_run(seal(tmp_path, params, dag_run="d"), dag_run="d")


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

    sealed = seal(tmp_path, {"scenario": str(tmp_path / "tiny_own.yaml")}, dag_run="d")
    # A conf beside it counts for nothing.
    planned = planning.plan_run({**sealed, "policy": "/etc/passwd"}, dag_run="d")

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


OF_WORKER = "/etc/hostname"


@pytest.mark.parametrize(
    ("conf", "field"),
    [
        ({"scenario": OF_WORKER}, "scenario"),
        ({"scenario": "../../../etc/passwd"}, "scenario"),
        ({"policy": OF_WORKER}, "policy"),
        ({"overrides": {"payload.file": OF_WORKER}}, "payload.file"),
        ({"overrides": {"payload": "{file: /etc/hostname}"}}, "payload.file"),
        ({"overrides": {"consumer.manifest": OF_WORKER}}, "consumer.manifest"),
        ({"overrides": {"consumer": {"env": {"BROWSER": "sh -c id"}}}}, "consumer.env.BROWSER"),
        ({"overrides": "consumer={command: [id]}"}, "consumer.command"),
        (
            {"overrides": {"profile": "{kind: trace, file: /etc/hostname, rate_scale: 1}"}},
            "profile.file",
        ),
        (
            {"overrides": {"actions": "[{kind: rolling_restart, at_seconds: 1, env: {A: b}}]"}},
            "actions.0.env.A",
        ),
        ({"experiment": "/etc/hostname", "cell": "x"}, "experiment"),
        ({"experiment": "live_group_java", "cell": "x"}, "cell"),
        ({"experiment": "aa_quick_spike", "cell": "first"}, "scenario"),
        ({"sealed": "../sealed"}, "sealed"),
    ],
)
def test_a_conf_reaches_nothing_but_the_catalog(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conf: dict[str, Any], field: str
) -> None:
    """Neither a file nor a process of the worker; nothing is planned."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")

    with pytest.raises(WrongInput) as refused:
        planning.plan_run({"scenario": "own_consumer", **conf}, dag_run="d")

    assert (refused.value.where, refused.value.field) == ("conf", field)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("is_allowed", [False, True])
def test_the_deployer_allows_folders_and_fields(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_allowed: bool
) -> None:
    """A link is followed first, and a file there is no more trusted than the conf."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "orders.jsonl").write_text('{"customer": {"id": "a"}}\n')
    scenario = yaml.safe_load((catalog_folder() / "scenarios" / "own_messages.yaml").read_text())
    scenario["payload"]["file"] = "link.jsonl"
    (inside / "mine.yaml").write_text(yaml.safe_dump(scenario))
    place = inside if is_allowed else outside
    (inside / "link.jsonl").symlink_to(place / "orders.jsonl")
    monkeypatch.setenv("LAGBENCH_ALLOWED_FOLDERS", f"{tmp_path}/other:{outside}/../inside")
    conf = {"scenario": str(inside / "mine.yaml")}

    with pytest.raises(WrongInput) as refused:
        planning.plan_run(conf, dag_run="d")
    assert refused.value.field == "payload.file"
    monkeypatch.setenv("LAGBENCH_ALLOWED_FIELDS", "payload.file, actions.*.env")
    if is_allowed:
        assert planning.plan_run(conf, dag_run="d")["scenario"] == "own_messages"
    else:
        with pytest.raises(WrongInput, match="inside"):
            planning.plan_run(conf, dag_run="d")


@pytest.mark.parametrize(
    ("variable", "value"),
    [("LAGBENCH_ALLOWED_FOLDERS", "srv/scenarios"), ("LAGBENCH_ALLOWED_FIELDS", "consumer.envs")],
)
def test_a_wrong_variable_of_the_deployer_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, value: str
) -> None:
    """It would allow something else than what is meant."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")
    monkeypatch.setenv(variable, value)

    with pytest.raises(WrongInput) as refused:
        planning.plan_run({"scenario": "quick_spike"}, dag_run="d")

    assert (refused.value.field, refused.value.value) == (variable, value)


def test_a_cell_of_the_catalog_may_set_what_its_conf_may_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The experiment's own file is the deployer's; another value is not."""
    plan_embedded_runs(monkeypatch, tmp_path / "runs")
    monkeypatch.setattr(planning, "require_playable", lambda *_, **__: None)
    experiment = load_experiment("live_group_java")
    overrides = experiment.overrides_of(experiment.cells[0])
    conf = {"scenario": "own_consumer", "experiment": experiment.name, "cell": "documented"}

    assert planning.plan_run({**conf, "overrides": overrides}, dag_run="d")["policy"] == "lab-four"
    with pytest.raises(WrongInput, match="BROWSER"):
        planning.plan_run(
            {**conf, "overrides": overrides | {"consumer.env.BROWSER": "id"}}, dag_run="d"
        )
