"""What a scrape says of each object: what was seen and what is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from tests.unit.programs.lag_scaler.test_registry import Setting, answered, ref, with_registry

from lagbench.core.keda.triggers.kafka_parameters import KafkaSecurity
from lagbench.core.lag_scaler.lag_source import KafkaCluster
from lagbench.programs.lag_scaler.cluster_sampler import kafka_settings
from lagbench.programs.lag_scaler.rule_registry import ObjectRegistry
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

_PREFIX = "lagbench_scaler_object_"


def figures(setting: Setting, name: str, *, group: str = "enrich") -> dict[str, float]:
    """Return the series of one object and group, by name without the prefix."""
    text = setting.figures.exposition()[1].decode()
    wanted = {"object": f"n/{name}", "group": group, "topic": "events"}
    return {
        sample.name.removeprefix(_PREFIX): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_PREFIX) and sample.labels == wanted
    }


def test_each_object_reports_what_it_saw_and_what_it_serves() -> None:
    """Two partitions of 100 each: one rule is met at once, the other has not lasted."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        at_once, patient = await answered(registry, ref("a", sustainSeconds="0"), ref("b"))
        assert figures(setting, "a") == {
            "lag_records": 200,
            "largest_lag_records": 100,
            "persistence_seconds": 0,
            "sustain_seconds": 0,
            "persistent": 1,
            "active": 1,
            "metric_value": at_once.decision().metric_value,
            "metric_target": 10,
        }
        found = figures(setting, "b")
        assert (found["lag_records"], found["sustain_seconds"]) == (200, 20)
        assert (found["persistent"], found["active"]) == (0, 0)
        assert found["metric_value"] == patient.decision().metric_value == 0

    with_registry(setting, steps)


def test_an_object_without_a_decision_has_no_series() -> None:
    """A gap, never a zero that looks like no lag: no sample ever succeeded."""
    setting = Setting()
    setting.cluster.error = "no broker"

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        assert figures(setting, "a") == {}

    with_registry(setting, steps)


def test_a_decision_that_has_become_too_old_has_no_series() -> None:
    """What is shown is what KEDA is told: UNAVAILABLE after 2.5 intervals."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        assert figures(setting, "a")["lag_records"] == 200
        setting.now_ns += 26 * 10**9
        assert figures(setting, "a") == {}

    with_registry(setting, steps)


def test_changed_metadata_takes_the_place_of_the_old_in_a_scrape() -> None:
    """Both are watched for a while; one series is shown, that of the newer rule."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"), ref("a", lagThreshold="50"))
        assert len(registry) == 2
        assert setting.figures.exposition()[1].count(b"object_metric_target{") == 1
        assert figures(setting, "a")["metric_target"] == 50

    with_registry(setting, steps)


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
