"""The client settings of a cluster that an object names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from lagbench.core.keda.triggers.kafka import KafkaSecurity
from lagbench.core.lag_scaler.lag_clusters import KafkaCluster
from lagbench.programs.lag_scaler.cluster_sampler import kafka_settings
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "open-sesame-4711",
}
OWN = ("kafka-0:9092", "kafka-1:9092")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a lag scaler with a login in a file and its own cluster."""
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()))
    return {CONFIG_VARIABLE: str(file), "KAFKA_BROKERS": ", ".join(OWN)}


@pytest.mark.parametrize("servers", [OWN, tuple(reversed(OWN))])
def test_the_login_in_the_file_goes_to_the_own_cluster(
    environment: dict[str, str], servers: tuple[str, ...]
) -> None:
    """The order in which an object names the own servers does not matter."""
    found = kafka_settings(KafkaCluster(bootstrap_servers=servers), environment)

    assert found == {**LOGIN, "bootstrap.servers": ",".join(servers)}


@pytest.mark.parametrize("servers", [("evil:9092",), (*OWN, "evil:9092"), OWN[:1]])
def test_the_login_in_the_file_goes_to_no_other_address(
    environment: dict[str, str], servers: tuple[str, ...]
) -> None:
    """Anybody who may write a ScaledObject may name an address: it gets no password."""
    found = kafka_settings(KafkaCluster(bootstrap_servers=servers), environment)

    assert found == {"bootstrap.servers": ",".join(servers)}


def test_without_an_own_address_the_file_is_not_used(environment: dict[str, str]) -> None:
    """A lag scaler that does not know its own cluster sends its login to nobody."""
    del environment["KAFKA_BROKERS"]

    found = kafka_settings(KafkaCluster(bootstrap_servers=OWN), environment)

    assert found == {"bootstrap.servers": ",".join(OWN)}


def test_another_cluster_gets_the_login_that_the_object_states(
    environment: dict[str, str],
) -> None:
    """Nothing of the file is mixed into it."""
    security = KafkaSecurity(sasl="plaintext", username="bob", password=SecretStr("his-own"))
    cluster = KafkaCluster(bootstrap_servers=("other:9092",), security=security)

    assert kafka_settings(cluster, environment) == {
        "bootstrap.servers": "other:9092",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": "his-own",
    }


@pytest.mark.parametrize(
    "security",
    [KafkaSecurity(tls="enable"), KafkaSecurity(sasl="plaintext", username="own")],
)
def test_the_file_wins_over_what_is_stated_for_the_own_cluster(
    environment: dict[str, str], security: KafkaSecurity
) -> None:
    """Its protocol and login go together."""
    cluster = KafkaCluster(bootstrap_servers=OWN, security=security)

    found = kafka_settings(cluster, environment)

    assert {name: found[name] for name in LOGIN} == LOGIN


def test_a_login_of_an_object_for_the_own_cluster_is_not_mixed_with_the_file(
    environment: dict[str, str],
) -> None:
    """Neither a client certificate nor any other part of the server's login goes with it."""
    Path(environment[CONFIG_VARIABLE]).write_text("security.protocol=ssl\nssl.key.password=x\n")
    security = KafkaSecurity(sasl="plaintext", username="bob", password=SecretStr("his-own"))
    cluster = KafkaCluster(bootstrap_servers=OWN, security=security, has_login_of_object=True)

    found = kafka_settings(cluster, environment)

    assert found["security.protocol"] == "sasl_plaintext"
    assert "ssl.key.password" not in found
