"""What a run is planned from, what its conf may reach, and its topics."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401
from tests.unit.plugins.conftest import SERVERS, World

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import checked_cell, load_policy, load_scenario
from lagbench.catalog.catalog_files import catalog_folder, list_policies, list_scenarios
from lagbench.catalog.conf import refuse_unknown, settings_of
from lagbench.catalog.experiments import load_experiment
from lagbench.catalog.own_consumers import read_own_deployment
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.compare.cell_identity import content_digest
from lagbench.errors import WrongInput
from lagbench.orchestrator.sealed_conf import seal
from lagbench.project import PROJECT_ROOT
from lagbench.results.cell_run import CellRun
from lagbench.results.compared_runs import cell_of
from lagbench.results.planned_run import cell_digests
from lagbench_airflow import bench_life as run_topics
from lagbench_airflow import params as planning
from lagbench_airflow.hooks import kafka
from lagbench_airflow.hooks import target as targets
from lagbench_airflow.params import rehearsal_params, scenario_run_params

from airflow.sdk.definitions.param import ParamsDict  # isort: skip
from airflow.sdk.exceptions import ParamValidationError  # isort: skip

Plan = Callable[[dict[str, Any]], RunFolder]

EMBEDDED = {"kube_config_path": "/bench"}


@pytest.mark.parametrize(("setting", "factor"), [(None, -1), (3, 3)])
def test_topics_keep_everything_whatever_the_broker_s_defaults(
    world: World, monkeypatch: pytest.MonkeyPatch, setting: int | None, factor: int
) -> None:
    """Neither age nor size drops a message, and one replica in sync is enough for a write.

    How many replicas is a setting of the cluster, else the broker's default.
    """
    world.cluster = ClusterSettings(bootstrap_servers=SERVERS, replication_factor=setting)
    monkeypatch.setattr(run_topics, "KafkaHook", kafka.KafkaHook)
    monkeypatch.setattr(run_topics, "settings_of_cluster", lambda *_: world.cluster)
    run_topics.create_run_topics(CellRun.open(str(world.folder.path)))

    kept = {"cleanup.policy": "delete", "min.insync.replicas": "1"}
    kept |= dict.fromkeys(("retention.ms", "retention.bytes"), "-1")
    specs = world.admin.specs
    assert {name: dict(spec.configs) for name, spec in specs.items()} == dict.fromkeys(
        world.names.topics, kept
    )
    assert {spec.replication_factor for spec in specs.values()} == {factor}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Return the runs folder, which need not be there."""
    return tmp_path / "runs"


def on_target(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any]) -> None:
    """Let the Kubernetes connection have that extra."""
    monkeypatch.setattr(targets, "is_embedded", lambda: extra == EMBEDDED)
    monkeypatch.setattr(targets, "connection", lambda *_: SimpleNamespace(extra_dejson=extra))
    monkeypatch.setattr(planning, "cluster_version", lambda: "1.37")


@pytest.fixture
def plan(runs: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return ``plan_run`` for the embedded bench, which returns the run's folder."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(runs))
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(runs.parent))
    monkeypatch.setattr(planning, "settings_of_cluster", ClusterSettings)
    on_target(monkeypatch, EMBEDDED)

    def run(conf: dict[str, Any]) -> RunFolder:
        return RunFolder(Path(planning.plan_run(conf, dag_run="d")["run_folder"]))

    return run


@pytest.mark.parametrize(
    ("extra", "target"),
    [
        (EMBEDDED, "embedded"),
        ({"cluster_context": "blue"}, "context:blue"),
        ({"in_cluster": True}, "context:in_cluster"),
    ],
)
def test_a_planned_run_reports_its_cell(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], target: str
) -> None:
    """The manifest has the digests of what is rehearsed, and of the target's name."""
    on_target(monkeypatch, extra)
    folder = plan({"scenario": "quick_spike"})
    manifest = folder.read_json(folder.manifest)

    assert manifest["cell"] == {
        "scenario": cell_digests(checked_cell("quick_spike"))["scenario"],
        "policy": content_digest(load_policy(manifest["policy"]).manifest),
        "target": content_digest(target),
    }
    cell = cell_of(folder)
    folder.write_text(folder.policy, "the policy as applied, with the run's own names")
    assert cell is not None
    assert cell_of(folder) == cell


@pytest.mark.parametrize(
    ("scenario", "settings", "named"),
    [
        # Also for a run that nobody started with lagbench run: KEDA could not read its lag.
        ("quick_spike", ClusterSettings(kafka_secret="kafka-login"), "authenticationRef"),  # noqa: S106
        ("quick_actions", ClusterSettings(), r"actions\.\d+\.kind"),
    ],
)
def test_what_a_cluster_cannot_run_is_refused(
    plan: Plan,
    runs: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    scenario: str,
    settings: ClusterSettings,
    named: str,
) -> None:
    """Nothing is planned."""
    on_target(monkeypatch, {"cluster_context": "blue"})
    monkeypatch.setattr(planning, "settings_of_cluster", lambda: settings)

    with pytest.raises(WrongInput, match=named):
        plan({"scenario": scenario})
    assert not runs.exists()


def test_the_samples_are_kept_as_they_were_checked(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The run folder has the file; one that changed after its check ends the plan."""
    file = tmp_path / "orders.jsonl"
    file.write_text('{"customer": "é"}\n', encoding="utf-8")
    overrides = {"payload.file": str(file), "payload.key_field": "customer"}
    params = {"scenario": "own_messages", "overrides": overrides}
    folder = plan(seal(tmp_path, params, dag_run="d"))
    checked = checked_cell("own_messages", overrides=overrides)
    file.write_text('{"customer": "another"}\n', encoding="utf-8")
    monkeypatch.setattr(planning, "checked_cell", lambda *_, **__: checked)

    assert folder.payload.read_text(encoding="utf-8") == '{"customer": "é"}\n'
    with pytest.raises(WrongInput, match="checked a moment ago"):
        plan(seal(tmp_path, params, dag_run="d"))


def test_only_the_owner_reads_a_manifest_with_secrets(plan: Plan, tmp_path: Path) -> None:
    """The run folder has the values, from which localkube makes the Secret of the pods."""
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
    folder = plan({**sealed, "policy": "/etc/passwd"})  # a conf beside it counts for nothing

    assert folder.own_deployment.stat().st_mode & 0o777 == 0o600
    consumer = CellRun.open(str(folder.path)).scenario.consumer
    own = read_own_deployment(folder.own_deployment, consumer)
    assert own.secrets["login"]["stringData"] == {"key": "hush"}


OF_WORKER = "/etc/hostname"

RESTART = "[{kind: rolling_restart, at_seconds: 1, env: {A: b}}]"

TRACE = "{kind: trace, file: /etc/hostname, rate_scale: 1}"


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
        ({"overrides": {"profile": TRACE}}, "profile.file"),
        ({"overrides": {"actions": RESTART}}, "actions.0.env.A"),
        ({"experiment": "/etc/hostname", "cell": "x"}, "experiment"),
        ({"experiment": "live_group_java", "cell": "x"}, "cell"),
        ({"experiment": "aa_quick_spike", "cell": "first"}, "scenario"),
        ({"sealed": "../sealed"}, "sealed"),
    ],
)
def test_a_conf_reaches_nothing_but_the_catalog(
    plan: Plan, runs: Path, conf: dict[str, Any], field: str
) -> None:
    """Neither a file nor a process of the worker; nothing is planned."""
    with pytest.raises(WrongInput) as refused:
        plan({"scenario": "own_consumer", **conf})

    assert (refused.value.where, refused.value.field) == ("conf", field)
    assert not runs.exists()


@pytest.mark.parametrize("is_allowed", [False, True])
def test_the_deployer_allows_folders_and_fields(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_allowed: bool
) -> None:
    """A link is followed first, and a file there is no more trusted than the conf."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "orders.jsonl").write_text('{"customer": {"id": "a"}}\n')
    scenario = yaml.safe_load((catalog_folder() / "scenarios" / "own_messages.yaml").read_text())
    scenario["payload"]["file"] = "link.jsonl"
    (inside / "mine.yaml").write_text(yaml.safe_dump(scenario))
    (inside / "link.jsonl").symlink_to((inside if is_allowed else outside) / "orders.jsonl")
    monkeypatch.setenv("LAGBENCH_ALLOWED_FOLDERS", f"{tmp_path}/other:{outside}/../inside")
    conf = {"scenario": str(inside / "mine.yaml")}
    with pytest.raises(WrongInput) as refused:
        plan(conf)
    assert refused.value.field == "payload.file"

    monkeypatch.setenv("LAGBENCH_ALLOWED_FIELDS", "payload.file, actions.*.env")
    if is_allowed:
        assert plan(conf).payload.exists()
    else:
        with pytest.raises(WrongInput, match="inside"):
            plan(conf)


@pytest.mark.parametrize(
    ("variable", "value"),
    [("LAGBENCH_ALLOWED_FOLDERS", "srv/scenarios"), ("LAGBENCH_ALLOWED_FIELDS", "consumer.envs")],
)
def test_a_wrong_variable_of_the_deployer_is_named(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """It would allow something else than what is meant."""
    monkeypatch.setenv(variable, value)

    with pytest.raises(WrongInput) as refused:
        plan({"scenario": "quick_spike"})
    assert (refused.value.field, refused.value.value) == (variable, value)


def test_a_cell_of_the_catalog_may_set_what_its_conf_may_not(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The experiment's own file is the deployer's; another value is not."""
    monkeypatch.setattr(planning, "require_playable", lambda *_, **__: None)
    experiment = load_experiment("live_group_java")
    overrides = experiment.overrides_of(experiment.cells[0])
    conf = {"scenario": "own_consumer", "experiment": experiment.name, "cell": "documented"}
    folder = plan({**conf, "overrides": overrides})

    assert folder.read_json(folder.manifest)["policy"] == "lab-four"
    with pytest.raises(WrongInput, match="BROWSER"):
        plan({**conf, "overrides": overrides | {"consumer.env.BROWSER": "id"}})


def test_the_form_offers_the_catalog() -> None:
    """The choices are those of the catalog, each with its line; a path is taken, too."""
    form = scenario_run_params()
    for param in form.values():
        param.resolve()

    offered = form["scenario"].schema["enum"]
    assert form["scenario"].value == offered[0] == "hello"
    assert [name.startswith("lab_") for name in offered] == sorted(
        name.startswith("lab_") for name in offered
    )
    for name, choices in (("scenario", list_scenarios()), ("policy", [None, *list_policies()])):
        assert sorted(form[name].schema["enum"], key=str) == sorted(choices, key=str)
        assert form[name].resolve("/a/path.yaml") == "/a/path.yaml"
    texts = form["scenario"].schema["values_display"]
    assert texts["hello"] == "hello: A 6x spike for 20 s on 4 partitions, the first thing to try"
    with pytest.raises(ParamValidationError):
        form["scenario"].resolve(None)


def test_the_form_offers_the_files_of_allowed_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenarios and policies are told apart, by a line of each; neither is anything else."""
    inside = tmp_path / "shop"
    inside.mkdir()
    (inside / "sale.yaml").write_text("description: The sale\nprofile: {kind: steady}\n")
    (tmp_path / "mine.yml").write_text("# Mine\nkind: ScaledObject\n")
    (tmp_path / "other.yaml").write_text("kind: Deployment\n")
    monkeypatch.setenv("LAGBENCH_ALLOWED_FOLDERS", str(tmp_path))

    form = scenario_run_params()
    offered = {
        name: form[name].schema["values_display"][path]
        for name in ("scenario", "policy")
        for path in form[name].schema["enum"]
        if path and path.startswith("/")
    }

    assert offered == {"scenario": "sale.yaml: The sale", "policy": "mine.yml: Mine"}


def test_the_defaults_of_the_night_are_the_deployers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule has no form; what is no field of the form is refused."""
    monkeypatch.setenv("LAGBENCH_NIGHTLY", '{"scenario": "bursty", "seed": 3}')
    form = rehearsal_params()

    assert (form["scenario"].resolve(), form["seed"].resolve()) == ("bursty", 3)
    for wrong in ('{"polcy": "a"}', "bursty"):
        monkeypatch.setenv("LAGBENCH_NIGHTLY", wrong)
        with pytest.raises(WrongInput):
            rehearsal_params()


FILLED = {"seed": 0, "balancer": "range", "rate": None, "commit": "", "spike_mult": 5}
CONCURRENCY, SEED = {"consumer.concurrency": "4"}, {"seed": "3"}


@pytest.mark.parametrize(
    ("params", "settings"),
    [
        # A filled field is a setting; an empty one leaves the scenario alone.
        (
            {**FILLED, "graceful_shutdown": "off"},
            {
                "seed": "0",
                "consumer.balancer": "range",
                "profile.spike_mult": "5",
                "consumer.graceful_shutdown": "off",
            },
        ),
        # It beats the same setting in the overrides.
        ({"seed": 9, "overrides": "seed=3"}, {"seed": "9"}),
        ({"overrides": {"consumer.concurrency": 4, "seed": "3"}}, CONCURRENCY | SEED),
        ({"overrides": "consumer.concurrency=4\n\n seed = 3 \n"}, CONCURRENCY | SEED),
        # A client that sends the conf of an earlier page quotes the object.
        ({"overrides": ' {"consumer.concurrency": 4}'}, CONCURRENCY),
    ],
)
def test_fields_and_overrides_become_settings(
    params: dict[str, Any], settings: dict[str, str]
) -> None:
    """Overrides are lines or an object."""
    assert settings_of(params) == settings


@pytest.mark.parametrize("written", ['{"seed": 3', "=3", "a..b=3", "seed 3"])
def test_overrides_that_are_neither_are_refused(written: str) -> None:
    """Half an object and a line without a key are wrong overrides of the conf."""
    with pytest.raises(WrongInput) as refused:
        settings_of({"overrides": written})

    assert (refused.value.where, refused.value.field) == ("conf", "overrides")


def test_what_airflow_adds_is_taken() -> None:
    """OpenLineage's key is none of the user's; a misspelt key is named, with the fields."""
    form = scenario_run_params()
    refuse_unknown({**dict.fromkeys(form), "openlineage": {}}, form)

    with pytest.raises(WrongInput) as refused:
        refuse_unknown({"scenario": "quick_spike", "polcy": "lag-quick"}, form)
    assert (refused.value.field, refused.value.value) == ("polcy", "lag-quick")
    assert "policy" in refused.value.allowed


@pytest.mark.parametrize(
    "written",
    [
        "slos.time_lag_p99_seconds=30\nconsumer.concurrency = 4\n",
        '{"slos.time_lag_p99_seconds": 30, "consumer.concurrency": 4}',
        '{"slos": {"time_lag_p99_seconds": 30}, "consumer": {"concurrency": 4}}',
    ],
)
def test_what_the_page_sends_changes_the_scenario(written: str) -> None:
    """Lines with digits, dotted keys and nested objects pass the form's schema and the catalog.

    The form sends all fields, empty ones as null. A box of several types (its FieldAnyOf, 3.3.2)
    is an object when the text is JSON of such a type, else the text as it stands.
    """
    fields = {name: param.value for name, param in scenario_run_params().items()}
    fields["overrides"] = json.loads(written) if written.startswith("{") else written
    form = ParamsDict(scenario_run_params())
    form.update(dict(json.loads(json.dumps(fields))))

    scenario = load_scenario("quick_spike", settings_of(form.validate()))
    assert scenario.slos.time_lag_p99_seconds == 30
    assert scenario.consumer.concurrency == 4
