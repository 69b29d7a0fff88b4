"""The files of a user's own consumer, read before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.fakes.edits import edited, edits
from tests.unit.catalog.test_catalog import scenario_file

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.catalog.catalog_files import catalog_folder, list_scenarios
from lagbench.catalog.own_consumers import (
    read_environment,
    read_own_deployment,
    require_own_consumer,
)
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.own_deployment import KafkaSettings
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.simulation.plan import plan_cell
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

SECRET = "kafka-login"  # noqa: S105 - the name of an object

DATA = PROJECT_ROOT / "tests/data/own_consumers"

CONSUMER: dict[str, Any] = {
    "kind": "own",
    "accounting": "commits",
    "env": {"KAFKA": "{bootstrap_servers}", "TOPIC": "{topic}", "GROUP": "{group}"},
}


OWN = {**CONSUMER, "manifest": "own.yaml", "env_file": str(DATA / "secret.env")}


def scenario(
    folder: Path,
    manifest: str,
    consumer: Mapping[str, object] | None = None,
    actions: Sequence[object] = (),
) -> Scenario:
    """Return the scenario of a file that names the manifest."""
    of_consumer = {**CONSUMER, "manifest": manifest, **(consumer or {})}
    return load_scenario(scenario_file(folder, consumer=of_consumer, actions=list(actions)))


@pytest.mark.parametrize(
    ("manifest", "consumer"),
    [
        ("probes.yaml", {}),
        ("secret.yaml", {"env_file": str(DATA / "secret.env")}),
        ("volume-sidecar.yaml", {"container": "orders"}),
    ],
)
def test_ordinary_manifests_are_taken(
    tmp_path: Path, manifest: str, consumer: dict[str, str]
) -> None:
    """Probes, a Secret, volumes and a sidecar: one machine and a cluster take each."""
    found = scenario(tmp_path, str(DATA / manifest), consumer)

    assert found.consumer.manifest_sha256 is not None
    for on in (KafkaSettings(), ClusterSettings()):
        require_own_consumer(found, on=on)


def test_a_secret_that_nobody_gives_is_refused_by_its_place(tmp_path: Path) -> None:
    """On one machine the file of variables is missed by the place that needs it."""
    found = scenario(tmp_path, str(DATA / "secret.yaml"))

    with pytest.raises(WrongInput) as refused:
        require_own_consumer(found, on=KafkaSettings())

    assert refused.value.where == str(DATA / "secret.yaml")
    assert refused.value.field == "spec.template.spec.containers[0].envFrom[0].secretRef"
    assert "--env-file" in refused.value.allowed
    require_own_consumer(found, on=ClusterSettings())


@pytest.mark.parametrize("command", ["./build/orders", "no-such-program-4711"])
def test_a_program_that_is_not_built_is_refused_by_its_place(tmp_path: Path, command: str) -> None:
    """On one machine the command runs: what is neither in the folder nor on the PATH is named."""
    text = (DATA / "probes.yaml").read_text()
    assert '["python", "orders.py"]' in text
    (tmp_path / "own.yaml").write_text(text.replace('["python", "orders.py"]', f"[{command}]"))
    found = scenario(tmp_path, "own.yaml")

    with pytest.raises(WrongInput, match="build it first") as refused:
        require_own_consumer(found, on=KafkaSettings())

    assert refused.value.field == "spec.template.spec.containers[0].command"
    assert refused.value.value == command
    require_own_consumer(found, on=ClusterSettings())


def test_a_log_in_without_a_secret_of_the_cluster_is_refused(tmp_path: Path) -> None:
    """The target's settings must name the Secret."""
    env = {**CONSUMER["env"], "PASSWORD": "{kafka.sasl.password}"}
    found = scenario(tmp_path, str(DATA / "probes.yaml"), {"env": env})

    require_own_consumer(found, on=ClusterSettings(kafka_secret=SECRET))
    with pytest.raises(WrongInput, match="KAFKA_SECRET") as refused:
        require_own_consumer(found, on=ClusterSettings())

    assert refused.value.field == "consumer.env.PASSWORD"


def test_a_missing_manifest_is_one_message(tmp_path: Path) -> None:
    """The path is beside the scenario file."""
    with pytest.raises(WrongInput, match=r"nowhere\.yaml"):
        scenario(tmp_path, "nowhere.yaml")


def test_a_file_of_variables_is_read_as_written() -> None:
    """Comments, export and quotes are those of an ordinary .env file."""
    consumer = ConsumerSettings.model_validate({"env_file": str(DATA / "secret.env")})

    assert read_environment(consumer) == {
        "DATABASE_PASSWORD": "correct horse",
        "API_URL": "https://api.example",
    }


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfA=1\r\nB=2\r\n", b"A=1\n\nexport B='2'"])
def test_a_file_of_variables_may_come_from_any_editor(tmp_path: Path, content: bytes) -> None:
    """A byte order mark, ends of lines of Windows, no end of the last line."""
    (tmp_path / "x.env").write_bytes(content)
    consumer = ConsumerSettings.model_validate({"env_file": str(tmp_path / "x.env")})

    assert read_environment(consumer) == {"A": "1", "B": "2"}


def test_a_line_without_a_name_is_named_without_its_value(tmp_path: Path) -> None:
    """A message never shows more than the beginning of a line, which may be a secret."""
    file = tmp_path / "a.env"
    file.write_text("A=b\nthis is a secret of thirty letters\n")

    with pytest.raises(WrongInput) as refused:
        read_environment(ConsumerSettings.model_validate({"env_file": str(file)}))

    assert refused.value.field == "line 2"
    assert "letters" not in str(refused.value)


@pytest.mark.parametrize("name", ["ORDERS_TOPIC", "orders.topic"])
def test_a_wrong_variable_is_shown_with_its_name_and_its_value(tmp_path: Path, name: str) -> None:
    """Capitals and dots of a variable are part of the field's name."""
    env = {**CONSUMER["env"], name: "{topics}"}
    with pytest.raises(WrongInput) as refused:
        scenario(tmp_path, "mine-deployment.yaml", {"env": env})

    assert (refused.value.field, refused.value.value) == (f"consumer.env.{name}", "{topics}")


@pytest.mark.parametrize(
    "text",
    [
        (
            "kind: Deployment\nspec: {template: {spec: {containers: [{env: [{name: DB_URL, value: "
            "s3cr3t}]}]}}}"
        ),
        "root:x:s3cr3t",
        "kind: Deployment\nvalue: s3cr3t: broken",
    ],
)
def test_a_message_on_a_manifest_has_no_value_of_it(tmp_path: Path, text: str) -> None:
    """Types and names only: a value may be a secret under any name."""
    file = tmp_path / "own.yaml"
    file.write_text(text)

    with pytest.raises(WrongInput) as refused:
        read_own_deployment(file, ConsumerSettings(kind="own", manifest=str(file)))

    assert "s3cr3t" not in str(refused.value)


RESTART = {"kind": "rolling_restart", "at_seconds": 1}


@pytest.mark.parametrize(
    ("consumer", "variables", "field"),
    [
        ({"env": {"DB_PASSWORD": "s3cr3t"}}, {}, "consumer.env.DB_PASSWORD"),
        ({"env": {"DATABASE_URL": "pg://u:s3cr3t@db/x"}}, {}, "consumer.env.DATABASE_URL"),
        ({"args": ["--api-token=s3cr3t"]}, {}, "consumer.args.0"),
        ({"command": ["run", "--password", "s3cr3t"]}, {}, "consumer.command.2"),
        ({}, {"API_KEY": "s3cr3t"}, "actions.0.env.API_KEY"),
    ],
)
def test_a_secret_in_a_scenario_is_refused(
    tmp_path: Path, consumer: dict[str, Any], variables: dict[str, str], field: str
) -> None:
    """Its value is not shown, and the message says where it belongs."""
    env = CONSUMER["env"] | consumer.get("env", {})
    actions = [{**RESTART, "env": variables}] if variables else []

    with pytest.raises(WrongInput, match="--env-file") as refused:
        scenario(tmp_path, str(DATA / "probes.yaml"), {**consumer, "env": env}, actions)

    assert refused.value.field == field
    assert "s3cr3t" not in str(refused.value)


def test_placeholders_and_switches_are_no_secrets(tmp_path: Path) -> None:
    """Kafka's log-in comes from a Secret, and the run's group is none under any name."""
    env = CONSUMER["env"] | {
        "SASL_PASSWORD": "{kafka.sasl.password}",
        "SASL_JAAS_CONFIG": 'Login required password="{kafka.sasl.password}";',
        "GROUP_KEY": "{group}",
        "SECRET": "",
    }

    found = scenario(
        tmp_path, str(DATA / "probes.yaml"), {"env": env, "args": ["--parse.key=true"]}
    )

    assert found.consumer.env == env


quick = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@quick
@given(scenario=st.sampled_from(list_scenarios()), drawn=edits())
def test_an_edited_scenario_is_planned_or_refused(
    tmp_path_factory: pytest.TempPathFactory, scenario: str, drawn: list[tuple[float, str, Any]]
) -> None:
    """Each is a file of the catalog."""
    folder = catalog_folder() / "scenarios"
    content = yaml.safe_load((folder / f"{scenario}.yaml").read_text())
    for part, field in (("profile", "file"), ("payload", "file"), ("consumer", "manifest")):
        if field in content.get(part, {}):
            content[part][field] = str(folder / content[part][field])
    file = tmp_path_factory.getbasetemp() / "edited.yaml"
    file.write_text(yaml.safe_dump(edited(content, drawn)))

    with suppress(WrongInput):
        cell = checked_cell(file)
        plan_cell(cell.scenario, cell.policy)


@quick
@given(
    manifest=st.sampled_from(["probes", "secret", "volume-sidecar", "on-cluster"]), drawn=edits()
)
@example(manifest="volume-sidecar", drawn=[(0.03125, "wrap", None)])  # a kind that is a list
def test_an_edited_manifest_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, manifest: str, drawn: list[tuple[float, str, Any]]
) -> None:
    """Each is an ordinary one; the plan reads it, then one machine and a cluster do."""
    folder = tmp_path_factory.getbasetemp()
    documents = list(yaml.safe_load_all((DATA / f"{manifest}.yaml").read_text()))
    (folder / "own.yaml").write_text(yaml.safe_dump_all(edited(documents, drawn)))
    path = scenario_file(folder, consumer=OWN)

    for on in (KafkaSettings(), ClusterSettings()):
        with suppress(WrongInput):
            require_own_consumer(load_scenario(path), on=on)
