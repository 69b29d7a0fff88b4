"""Settings of Kafka's clients from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lagbench.adapters.kafka.client_settings import (
    as_lines,
    own_settings,
    read_settings,
    settings_of_connection,
)
from lagbench.errors import WrongInput
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

HIDDEN = "open-sesame-4711"
SETTINGS = {
    "bootstrap.servers": "kafka:9093",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": HIDDEN,
}


def _file(folder: Path, text: str) -> Path:
    path = folder / "client.properties"
    path.write_text(text)
    return path


def test_lines_and_both_forms_of_json_are_the_same_settings(tmp_path: Path) -> None:
    """A file may have lines, a JSON object, or an Airflow connection whose extra is one."""
    connection = {"conn_type": "kafka", "extra": json.dumps(SETTINGS)}
    texts = (f"# ours\n\n{as_lines(SETTINGS)}", json.dumps(SETTINGS), json.dumps(connection))
    assert [read_settings(_file(tmp_path, text)) for text in texts] == [SETTINGS] * 3


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"sasl.pasword={HIDDEN}\n", "sasl.pasword"),
        (f"security.protocol={HIDDEN}\n", "security.protocol"),
        ("no sign here\n", "line 1"),
        ("{not json", "content"),
    ],
)
def test_a_wrong_setting_is_named_without_any_value(tmp_path: Path, text: str, named: str) -> None:
    """A refusal by librdkafka is one message, which shows no secret."""
    with pytest.raises(WrongInput) as refused:
        read_settings(_file(tmp_path, text))
    assert named in str(refused.value)
    assert HIDDEN not in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """The message has the path and the reason."""
    with pytest.raises(WrongInput, match="No such file"):
        read_settings(tmp_path / "absent.properties")


def test_a_program_has_the_servers_of_its_flags_and_the_rest_of_its_file(tmp_path: Path) -> None:
    """The pods may reach Kafka by another address than Airflow."""
    environment = {CONFIG_VARIABLE: str(_file(tmp_path, as_lines(SETTINGS)))}
    found = own_settings("broker:9092", environment)
    assert found == {**SETTINGS, "bootstrap.servers": "broker:9092"}
    assert own_settings("broker:9092", {}) == {"bootstrap.servers": "broker:9092"}


def test_a_value_of_several_lines_is_refused() -> None:
    """The form cannot hold a PEM text: a file of it is asked for."""
    with pytest.raises(WrongInput, match=r"ssl\.ca\.location"):
        as_lines({"ssl.ca.pem": "-----BEGIN\nx\n-----END\n"})


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.providers",
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.assertion.file",
    ],
)
def test_a_setting_that_loads_code_is_refused(tmp_path: Path, name: str) -> None:
    """By name, before librdkafka sees it; in a file and in a connection."""
    settings = {**SETTINGS, name: "/tmp/evil.so"}  # noqa: S108 - no file is made
    connection = json.dumps({"conn_type": "kafka", "extra": settings})

    for read in (
        lambda: read_settings(_file(tmp_path, as_lines(settings))),
        lambda: settings_of_connection(connection, where="environment", field="CONN"),
    ):
        with pytest.raises(WrongInput) as refused:
            read()
        assert refused.value.field == name
        assert "evil" not in str(refused.value)
