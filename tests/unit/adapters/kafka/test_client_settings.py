"""Settings of Kafka's clients from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.fakes.triggers import read_trigger

from lagbench.adapters.kafka.kafka_lag import security_settings, trigger_settings
from lagbench.core.keda.triggers.kafka_parameters import KafkaSecurity, KafkaTrigger
from lagbench.errors import WrongInput
from pod_program.kafka_config import CONFIG_VARIABLE
from pod_program.kafka_settings import as_lines, own_settings, read_settings, settings_of_connection

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
    texts = (
        f"# ours\n ! theirs\n\n{as_lines(SETTINGS)}",
        json.dumps(SETTINGS),
        json.dumps(connection),
    )
    assert [read_settings(_file(tmp_path, text)) for text in texts] == [SETTINGS] * 3


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"sasl.pasword={HIDDEN}\n", "sasl.pasword"),
        (f"security.protocol={HIDDEN}\n", "security.protocol"),
        ("no sign here\n", "line 1"),
        ("{not json", "content"),
        (None, "No such file"),
    ],
)
def test_a_wrong_setting_is_named_without_any_value(
    tmp_path: Path, text: str | None, named: str
) -> None:
    """A refusal by librdkafka is one message, which shows no secret; so is a missing file."""
    path = tmp_path / "absent" if text is None else _file(tmp_path, text)
    with pytest.raises(WrongInput) as refused:
        read_settings(path)
    assert named in str(refused.value)
    assert HIDDEN not in str(refused.value)


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


PASSWORD = {"username": "u", "password": SecretStr("p")}
TLS = {"tls": "enable"}


def of_password(protocol: str, mechanism: str) -> dict[str, str]:
    """Return the settings of a login by password."""
    login = {"sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": "p"}
    return {"security.protocol": protocol, **login}


@pytest.mark.parametrize(
    ("security", "settings"),
    [
        ({}, {"security.protocol": "plaintext"}),
        (
            {**TLS, "ca": SecretStr("CA"), "key": SecretStr("KEY"), "key_password": SecretStr("k")},
            {
                "security.protocol": "ssl",
                "ssl.ca.pem": "CA",
                "ssl.key.pem": "KEY",
                "ssl.key.password": "k",
            },
        ),
        (
            {**TLS, "skips_verification": True},  # KEDA's unsafeSsl
            {
                "security.protocol": "ssl",
                "enable.ssl.certificate.verification": False,
                "ssl.endpoint.identification.algorithm": "none",
            },
        ),
        ({"sasl": "plaintext", **PASSWORD}, of_password("sasl_plaintext", "PLAIN")),
        ({"sasl": "scram_sha256", **PASSWORD}, of_password("sasl_plaintext", "SCRAM-SHA-256")),
        ({"sasl": "scram_sha512", **PASSWORD, **TLS}, of_password("sasl_ssl", "SCRAM-SHA-512")),
    ],
)
def test_a_login_goes_over_the_connection_that_is_stated(
    security: dict[str, Any], settings: dict[str, Any]
) -> None:
    """PEM texts as they are; nothing that was not given."""
    assert security_settings(KafkaSecurity(**security)) == settings


@pytest.fixture(autouse=True)
def bench_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the program the log-in of a secured bench."""
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=ssl\nclient.id=bench\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))


def trigger(**authentication: str) -> KafkaTrigger:
    """Return a trigger with these resolved parameters of a TriggerAuthentication."""
    metadata = {"bootstrapServers": "kafka:9092", "consumerGroup": "g", "topic": "t"}
    return read_trigger("kafka", metadata, auth=authentication)


def test_a_trigger_without_a_log_in_has_the_one_of_the_bench() -> None:
    """A secured bench is not asked in plain text; a trigger with a log-in may be elsewhere."""
    assert trigger_settings(trigger()) == {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "ssl",
        "client.id": "bench",
    }
    assert trigger_settings(trigger(tls="enable")) == {"security.protocol": "ssl"}
