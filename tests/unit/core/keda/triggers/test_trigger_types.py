"""Each trigger type: its parameters, what KEDA refuses of them, and its record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.triggers import read_trigger

from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.trigger_parameters import RunSources, TriggerSource
from lagbench.core.keda.triggers.trigger_types import RESOURCE_TYPES, TRIGGER_TYPES
from lagbench.errors import WrongInput

KAFKA = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}
SCRAM = {"sasl": "scram_sha512", "username": "u", "password": "p-secret"}
ADDRESS = {"scalerAddress": "scaler:6000"}
LONDON = {
    "timezone": "Europe/London",
    "start": "0 8 * * 1-5",
    "end": "0 18 * * 1-5",
    "desiredReplicas": "5",
}
PROMETHEUS = {
    "serverAddress": "http://prometheus:9090",
    "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich"})',
    "threshold": "500",
}
WRITTEN = {"kafka": KAFKA, "cron": LONDON, "external": ADDRESS, "memory": {"value": "50"}}


@pytest.mark.parametrize(
    ("kind", "changes", "auth", "parameter"),
    [
        ("kafka", {"lagThreshold": "0"}, {}, "lagThreshold"),
        ("kafka", {"lagThreshold": "+10"}, {}, "lagThreshold"),
        ("kafka", {"lagThreshold": "010"}, {}, "lagThreshold"),
        ("kafka", {"lagThreshold": "1.0"}, {}, "lagThreshold"),
        ("kafka", {"activationLagThreshold": "-1"}, {}, "activationLagThreshold"),
        ("kafka", {"excludePersistentLag": "maybe"}, {}, "excludePersistentLag"),
        ("kafka", {"offsetResetPolicy": "newest"}, {}, "offsetResetPolicy"),
        ("kafka", {"version": "9.x"}, {}, "version"),
        ("kafka", {"partitionLimitation": "1-2-3"}, {}, "partitionLimitation"),
        ("kafka", {"consumerGroup": " "}, {}, "consumerGroup"),
        # TLS comes before SASL, the user before the password.
        ("kafka", {}, {"tls": "enable", "cert": "c"}, "key"),
        ("kafka", {}, {"tls": "enable", "key": "k", "sasl": "plaintext"}, "cert"),
        ("kafka", {}, {"sasl": "plaintext"}, "username"),
        ("kafka", {}, {"sasl": "scram_sha256", "username": "u"}, "password"),
        (
            "kafka",
            {},
            {"sasl": "oauthbearer", "username": "u", "password": "p"},
            "oauthTokenEndpointUri",
        ),
        (
            "kafka",
            {},
            {"sasl": "gssapi", "username": "u", "password": "p", "keytab": "k"},
            "password",
        ),
        ("cron", {"timezone": ""}, {}, "timezone"),
        ("cron", {"end": "0 18 * *"}, {}, "end"),
        ("cron", {"end": LONDON["start"]}, {}, "end"),
        ("cron", {"desiredReplicas": "0"}, {}, "desiredReplicas"),
        ("cron", {"desiredReplicas": "null"}, {}, "desiredReplicas"),
        ("cron", {"desiredReplicas": "2.5"}, {}, "desiredReplicas"),
        ("external", {"scalerAddress": ""}, {}, "scalerAddress"),
        ("external", {"enableTLS": "yes"}, {}, "enableTLS"),
        ("memory", {"value": "5.5"}, {}, "value"),
        ("memory", {"value": "3000000000"}, {}, "value"),
        ("memory", {"value": ""}, {}, "value"),
        ("memory", {"type": "Utilization"}, {}, "type"),
    ],
)
def test_what_keda_refuses(
    kind: str, changes: dict[str, str], auth: dict[str, str], parameter: str
) -> None:
    """The parameter is named."""
    with pytest.raises(TriggerRefused) as caught:
        read_trigger(kind, {**WRITTEN[kind], **changes}, auth=auth, metric_type="Utilization")

    assert caught.value.field == f"trigger.metadata.{parameter}"
    assert parameter in caught.value.keda_message


def test_spaces_around_a_number_are_no_error() -> None:
    """A blank value is the default, blanks around a value are dropped, as KEDA has it."""
    padded = {**KAFKA, "lagThreshold": " 20 ", "activationLagThreshold": " "}

    trigger = read_trigger("kafka", padded)

    assert (trigger.lag_threshold, trigger.activation_lag_threshold) == (20, 0)


def test_secrets_of_kafka_are_read_and_do_not_show() -> None:
    """Values of a TriggerAuthentication are there for the client, and not in the repr."""
    pair = {"tls": "enable", "ca": "ca-secret", "cert": "c-secret", "key": "k-secret"}

    security = read_trigger("kafka", KAFKA, {**SCRAM, **pair, "keyPassword": "kp-secret"}).security

    assert security.password.get_secret_value() == "p-secret"
    assert security.key_password is not None
    assert (security.is_tls, security.sasl, security.username) == (True, "scram_sha512", "u")
    assert "secret" not in repr(security)


def test_tls_of_kafka() -> None:
    """Without TLS a lonely certificate is no error; a value in the trigger is looked at first."""
    assert not read_trigger("kafka", KAFKA, {"cert": "c"}).security.is_tls
    disabled = read_trigger("kafka", {**KAFKA, "tls": "disable"}, {"tls": "enable"})
    assert not disabled.security.is_tls


def test_a_wrong_value_out_of_a_secret_is_not_repeated() -> None:
    """The reason names the parameter but not what the secret holds; KEDA prints it."""
    with pytest.raises(TriggerRefused) as caught:
        read_trigger("kafka", KAFKA, {"sasl": "hunter2"})

    assert "sasl" in str(caught.value)
    assert "hunter" not in str(caught.value)
    with pytest.raises(TriggerRefused, match="hunter2"):
        read_trigger("kafka", {**KAFKA, "sasl": "hunter2"})


def test_the_rules_wait_for_the_authentication() -> None:
    """While the secrets are not known, only what does not hang on them is checked."""
    metadata = {**KAFKA, "sasl": "plaintext"}
    parse = TRIGGER_TYPES["kafka"].parse

    assert parse(TriggerSource(metadata)).security.sasl == "plaintext"
    with pytest.raises(TriggerRefused, match="lagThreshold"):
        parse(TriggerSource({**metadata, "lagThreshold": "0"}))


def test_an_external_server_gets_all_metadata_and_the_values_of_variables() -> None:
    """A ``FromEnv`` key keeps its name and carries the value; unset and empty ones are left out."""
    metadata = {"topic": "t", "userFromEnv": "USER", "goneFromEnv": "GONE", "emptyFromEnv": "EMPTY"}

    trigger = read_trigger(
        "external", {**ADDRESS, **metadata}, environment={"USER": "u", "EMPTY": "", "OTHER": "x"}
    )

    assert trigger.metadata == {**ADDRESS, "topic": "t", "userFromEnv": "u"}
    assert trigger.metric_name(2) == "s2-"


@pytest.mark.parametrize(
    ("metadata", "auth", "uses_tls"),
    [
        ({}, {}, False),
        ({"enableTLS": "true"}, {}, True),
        ({}, {"caCert": "ca"}, True),
        ({}, {"tlsClientCert": "c", "tlsClientKey": "k"}, True),
        ({}, {"tlsClientCert": "c"}, False),
        ({"unsafeSsl": "true"}, {}, False),
    ],
)
def test_when_a_connection_is_encrypted(
    metadata: dict[str, str], auth: dict[str, str], uses_tls: bool
) -> None:
    """It is when asked for, with a CA, and with a whole client pair."""
    assert read_trigger("external", {**ADDRESS, **metadata}, auth).uses_tls == uses_tls


def test_secrets_of_an_external_trigger_do_not_show() -> None:
    """Neither keys nor resolved variables are in the repr."""
    trigger = read_trigger(
        "external",
        {**ADDRESS, "passwordFromEnv": "PASSWORD"},
        {"tlsClientKey": "k-secret", "tlsClientCert": "c-secret", "caCert": "ca-secret"},
        {"PASSWORD": "p-secret"},
    )

    assert "secret" not in repr(trigger)
    assert trigger.tls_client_key.get_secret_value() == "k-secret"
    assert trigger.connection_key[-1] == "k-secret"


def test_resources_are_percentages_or_quantities() -> None:
    """A share of the request, or an amount per pod; a container can be named."""
    percent = read_trigger("cpu", {"value": "50"}, metric_type="Utilization")
    amount = read_trigger(
        "memory", {"value": "1.5Gi", "containerName": "app"}, metric_type="AverageValue"
    )

    assert (percent.target_percent, percent.target_milli) == (50, None)
    assert percent.metric_name(3) == "cpu"
    assert (amount.target_percent, amount.target_milli) == (None, 1_610_612_736_000)
    assert amount.container_name == "app"
    with pytest.raises(WrongInput, check=lambda error: error.value == "lots"):
        read_trigger("cpu", {"value": "lots"}, metric_type="AverageValue")
    with pytest.raises(TriggerRefused, check=lambda error: error.field == "trigger.metricType"):
        read_trigger("cpu", {"value": "5"}, metric_type="Value")


@pytest.mark.parametrize("name", TRIGGER_TYPES)
def test_a_type_has_a_target_or_somebody_else_knows_it(name: str) -> None:
    """Of a resource the HPA knows the metric, of an external trigger its server."""
    known = TRIGGER_TYPES[name]

    assert known.name == name
    assert (known.target_milli is None) == (name in RESOURCE_TYPES or name.startswith("external"))
    assert known.may_be_cached == (name not in {"cron", "cpu", "memory"})


def test_a_run_fills_in_what_a_prometheus_trigger_reads() -> None:
    """The group is the run's; the address that of the bench, on a cluster the policy's own."""
    embedded = RunSources("broker:9092", "run.events", "enrich.run", "http://here:9090")
    cluster = RunSources("broker:9092", "run.events", "enrich.run")
    fill = TRIGGER_TYPES["prometheus"].for_run

    assert fill(PROMETHEUS, embedded) == {
        "serverAddress": "http://here:9090",
        "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich.run"})',
        "threshold": "500",
    }
    assert fill(PROMETHEUS, cluster)["serverAddress"] == PROMETHEUS["serverAddress"]


def test_a_target_below_half_a_thousandth_is_no_target() -> None:
    """KEDA makes 0 of it, which the API server rejects for an HPA."""
    trigger: dict[str, Any] = {
        "type": "prometheus",
        "metadata": {**PROMETHEUS, "threshold": "0.0004"},
    }
    manifest = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "consumer"},
        "spec": {"scaleTargetRef": {"name": "consumer"}, "triggers": [trigger]},
    }

    with pytest.raises(TriggerRefused, check=lambda error: error.stage == "hpa"):
        parse_scaled_object(manifest, where="f")
