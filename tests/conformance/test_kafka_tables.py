"""KEDA's own test tables of the kafka scaler, as data, against the trigger and the lag rules."""

import json
from pathlib import Path
from typing import Any

import pytest

from lag_scaler.keda_values import divisors, parse_partition_limitation
from lagbench.core.keda.loop.source_metrics import (
    PartitionOffsets,
    PersistentLagMemory,
    even_factor,
    needs_earliest,
    partition_lag,
    read_lag,
)
from lagbench.core.keda.triggers.kafka_parameters import (
    KafkaTrigger,
    kept_partitions,
)
from lagbench.core.keda.triggers.trigger_parameters import TriggerRefused
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger
from tests.fakes.triggers import read_trigger

TABLES = json.loads((Path(__file__).parents[1] / "data" / "keda_kafka_cases.json").read_text())
KAFKA = TABLES["kafka"]
LOGIN = {"sasl": "plaintext", "username": "admin", "password": "admin"}
# Names of an external trigger's parameters in the rows on shared connections.
FLAGS = {"enableTLS": "EnableTLS", "unsafeSsl": "UnsafeSsl"}
SECRETS = {"caCert": "CaCert", "tlsClientCert": "TLSClientCert", "tlsClientKey": "TLSClientKey"}
VALID = {
    "bootstrapServers": "broker1:9092,broker2:9092",
    "consumerGroup": "my-group",
    "topic": "my-topic",
    "allowIdleConsumers": "true",
    "version": "1.0.0",
}


def rows(name: str) -> list[Any]:
    """Return a table's rows with their labels as test ids."""
    table = KAFKA[name]
    found = table["rows"] if isinstance(table, dict) else table
    return [
        pytest.param(row, id=f"{number} {row.get('label') or row.get('name') or ''}".strip())
        for number, row in enumerate(found)
    ]


def outcome(metadata: dict[str, str], auth: dict[str, str] | None = None) -> KafkaTrigger | None:
    """Return the parsed trigger, None when it is rejected."""
    try:
        return read_trigger("kafka", metadata, auth=auth)
    except TriggerRefused:
        return None


@pytest.mark.parametrize("auth", [LOGIN, {}], ids=["login", "open"])
@pytest.mark.parametrize("row", rows("parse_metadata"))
def test_metadata(row: dict[str, Any], auth: dict[str, str]) -> None:
    """Metadata is accepted or rejected as by KEDA, and read to the same values."""
    trigger = outcome(row["metadata"], auth)

    assert (trigger is None) == row["isError"]
    if trigger is not None:
        assert list(trigger.bootstrap_servers) == row["brokers"]
        assert trigger.consumer_group == row["group"]
        assert trigger.topic == row["topic"]
        limitation = row["partitionLimitation"]
        assert trigger.partition_limitation == (tuple(limitation) if limitation else None)
        assert trigger.offset_reset_policy == row["offsetResetPolicy"]
        assert trigger.allow_idle_consumers == row["allowIdleConsumers"]
        assert trigger.exclude_persistent_lag == row["excludePersistentLag"]
        assert trigger.limit_to_partitions_with_lag == row["limitToPartitionsWithLag"]
        even = row["ensureEvenDistributionOfPartitions"]
        assert trigger.ensure_even_distribution_of_partitions == even
        assert trigger.full_metadata == row["fullMetadata"]


def secrets_of(trigger: KafkaTrigger) -> dict[str, str]:
    """Return the secrets under the names of a TriggerAuthentication, without those not given."""
    security = trigger.security
    found = {
        "ca": security.ca,
        "cert": security.cert,
        "key": security.key,
        "keyPassword": security.key_password,
        "password": security.password,
    }
    return {name: value.get_secret_value() for name, value in found.items() if value is not None}


def given_secrets(row: dict[str, Any]) -> dict[str, str]:
    """Return what a row's TriggerAuthentication holds of them."""
    names = {"ca", "cert", "key", "keyPassword", "password"}
    return {name: value for name, value in row["authParams"].items() if name in names and value}


@pytest.mark.parametrize("row", rows("parse_auth_params"))
def test_authentication_parameters(row: dict[str, Any]) -> None:
    """TLS and SASL from a TriggerAuthentication are accepted or rejected as by KEDA."""
    trigger = outcome({**VALID, "allowIdleConsumers": "false"}, row["authParams"])

    assert (trigger is None) == row["isError"]
    if trigger is not None:
        assert trigger.security.is_tls == row["enableTLS"]
        assert trigger.security.sasl == row["authParams"].get("sasl", "none").strip()
        assert secrets_of(trigger) == given_secrets(row)


@pytest.mark.parametrize("row", rows("parse_auth_params_in_scaledobject"))
def test_authentication_parameters_in_the_trigger(row: dict[str, Any]) -> None:
    """TLS and SASL types given in the trigger itself are accepted or rejected as by KEDA."""
    trigger = outcome(row["metadata"], row["authParams"])

    assert (trigger is None) == row["isError"]
    if trigger is not None:
        # KEDA's own test leaves the rows' enableTLS out here: some rows have no tls at all.
        assert secrets_of(trigger) == given_secrets(row)


@pytest.mark.parametrize("row", rows("parse_oauthbearer"))
def test_oauthbearer(row: dict[str, Any]) -> None:
    """OAUTHBEARER with its two token providers is accepted or rejected as by KEDA."""
    trigger = outcome({**VALID, **row["metadata"]}, row["authParams"])

    assert (trigger is None) == row["isError"]
    if trigger is not None:
        assert trigger.security.is_tls == row["enableTLS"]


@pytest.mark.parametrize("row", rows("oauth_token_provider"))
def test_token_provider(row: dict[str, Any]) -> None:
    """The token provider is the one asked for."""
    trigger = read_trigger("kafka", row["metadata"], auth=row["authParams"])

    wanted = "aws_msk_iam" if row["expectedTokenProvider"] == "MSK" else "bearer"
    assert trigger.security.token_provider == wanted


@pytest.mark.parametrize("row", rows("client_full_metadata"))
def test_full_metadata(row: dict[str, Any]) -> None:
    """FullMetadata is on unless it is switched off."""
    assert read_trigger("kafka", row["metadata"]).full_metadata == row["expectedFullMetadata"]


@pytest.mark.parametrize("row", rows("metric_names"))
def test_metric_name(row: dict[str, Any]) -> None:
    """The metric's name holds the trigger's place and the topic, or the group without a topic."""
    name = read_trigger("kafka", row["metadata"]).metric_name(row["triggerIndex"])

    assert name == row["expected_metric_name"]


@pytest.mark.parametrize("row", rows("topic_partitions"))
def test_kept_partitions(row: dict[str, Any]) -> None:
    """Only the partitions of partitionLimitation are kept."""
    trigger = read_trigger("kafka", row["metadata"])

    kept = kept_partitions(trigger, trigger.topic, row["partitionIds"])

    assert {trigger.topic: kept} == row["exp"]


@pytest.mark.parametrize("row", rows("parse_partition_limitation"))
def test_partition_limitation(row: dict[str, Any]) -> None:
    """Lists and ranges of partitions are read with spaces, and rejected when malformed."""
    if row.get("isError"):
        with pytest.raises(ValueError, match="invalid partition limitation"):
            parse_partition_limitation(row["input"])
    else:
        assert list(parse_partition_limitation(row["input"])) == row["expected"]


@pytest.mark.parametrize("row", rows("find_factors"))
def test_divisors(row: dict[str, Any]) -> None:
    """All divisors come in ascending order."""
    assert list(divisors(row["n"])) == row["factors"]


@pytest.mark.parametrize("row", rows("next_factor"))
def test_even_factor(row: dict[str, Any]) -> None:
    """The even share is the smallest divisor of the partition count that covers the lag."""
    factor = even_factor(row["totalLag"], row["totalTopicPartitions"], row["lagThreshold"])

    assert factor == row["factor"]


def trigger_of(row: dict[str, Any]) -> KafkaTrigger:
    """Return a trigger with a row's reset policy and scaleToZeroOnInvalidOffset."""
    return read_trigger(
        "kafka",
        {
            **VALID,
            "offsetResetPolicy": row["offsetResetPolicy"],
            "scaleToZeroOnInvalidOffset": str(row.get("scaleToZeroOnInvalidOffset", False)).lower(),
        },
    )


@pytest.mark.parametrize("row", rows("lag_for_partition"))
def test_lag_of_one_partition(row: dict[str, Any]) -> None:
    """A partition's lag follows the reset policy when no offset is committed."""
    known = row["topicPartitionOffsets"]["test-topic"].get("0")
    committed = row["consumerOffset"]
    offsets = PartitionOffsets(
        end=None if known is None else known.get("latestOffset", 0),
        committed=None if committed == -1 else committed,
        earliest=known.get("earliestOffset", 0)
        if known and known.get("earliestOffsetFound")
        else None,
    )

    lag, with_persistent = partition_lag(trigger_of(row), offsets, None)

    assert (lag, with_persistent) == (row["expectedLag"], row["expectedLagWithPersistent"])


@pytest.mark.parametrize("row", rows("retained_lag_end_to_end"))
def test_retained_lag(row: dict[str, Any]) -> None:
    """Oldest offsets are asked for only when they matter, and their absence is no error."""
    trigger = trigger_of(row)
    committed = None if row["consumerOffset"] == -1 else row["consumerOffset"]
    asked = PartitionOffsets(end=100, committed=committed)
    is_found = "earliestOffset" in row
    first = PartitionOffsets(
        end=100,
        committed=committed,
        earliest=row["earliestOffset"] if needs_earliest(trigger, asked) and is_found else None,
    )
    offsets = {("t", 0): first, ("t", 1): PartitionOffsets(end=100, committed=75)}

    reading, _ = read_lag(trigger, offsets, PersistentLagMemory())

    assert 1 + needs_earliest(trigger, asked) == row["expectedRequests"]
    assert reading.metric == row["expectedLag"]
    assert reading.is_active


@pytest.mark.parametrize("row", TABLES["external"]["parse_metadata"])
def test_external_metadata(row: dict[str, Any]) -> None:
    """Metadata of an external trigger is accepted or rejected as by KEDA, and sent as it is."""
    try:
        trigger = read_trigger("external", row["metadata"], auth=row["authParams"])
    except TriggerRefused:
        assert row["isError"]
        return

    assert not row["isError"]
    assert trigger.metadata == row["metadata"]
    assert trigger.enable_tls
    for name, secret in (("caCert", trigger.ca_cert), ("tlsClientCert", trigger.tls_client_cert)):
        assert secret is not None
        assert secret.get_secret_value() == row["authParams"][name]


def external_of(given: dict[str, Any]) -> ExternalTrigger:
    """Return the trigger with the connection of a table's row."""
    flags = {key: str(given.get(name, False)).lower() for key, name in FLAGS.items()}
    secrets = {key: given[name] for key, name in SECRETS.items() if name in given}
    metadata = {"scalerAddress": given["ScalerAddress"], **flags}
    return read_trigger("external", metadata, auth=secrets)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["name"]) for row in TABLES["external"]["connection_pool_key"]]
)
def test_external_connections_are_shared(row: dict[str, Any]) -> None:
    """Two triggers share a connection when all that makes it is equal."""
    left, right = external_of(row["left"]), external_of(row["right"])

    assert (left.connection_key == right.connection_key) == row["wantSame"]
