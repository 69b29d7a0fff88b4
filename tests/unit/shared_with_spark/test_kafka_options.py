"""The options of Spark's Kafka source for a secured Kafka."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lagbench.shared_with_spark.kafka_options import (
    CONFIG_VARIABLE,
    java_options,
    spark_kafka_options,
)

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}


def test_scram_over_tls_has_a_login_and_both_stores(tmp_path: Path) -> None:
    """User, password, authority and own certificate go in by Kafka's own names."""
    for name in ("ca", "cert", "key"):
        (tmp_path / f"{name}.pem").write_text(f"PEM of {name}")
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\n"
        f'sasl.password=a"b\\c\nssl.ca.location={tmp_path}/ca.pem\n'
        f"ssl.certificate.location={tmp_path}/cert.pem\nssl.key.location={tmp_path}/key.pem\n"
        "ssl.endpoint.identification.algorithm=none\n"
    )
    found = spark_kafka_options({CONFIG_VARIABLE: str(file)})
    assert found["kafka.security.protocol"] == "SASL_SSL"
    assert found["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="a\\"b\\\\c";'
    )
    assert found["kafka.ssl.truststore.certificates"] == "PEM of ca"
    assert found["kafka.ssl.keystore.key"] == "PEM of key"
    assert found["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_without_a_file_there_are_no_options() -> None:
    """A plain Kafka needs none."""
    assert spark_kafka_options({}) == {}


def test_another_mechanism_is_refused_by_name() -> None:
    """What Spark's reader cannot get from the file is said."""
    with pytest.raises(ValueError, match="GSSAPI"):
        java_options({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})


@pytest.mark.parametrize(
    "text",
    [
        "! ours\n # ours\nsecurity.protocol = SASL_SSL\nsasl.mechanism=PLAIN\n",
        json.dumps(LOGIN),
        json.dumps({"conn_type": "kafka", "extra": json.dumps(LOGIN)}),
    ],
)
def test_every_form_of_a_file_is_read(tmp_path: Path, text: str) -> None:
    """Spark takes the forms that librdkafka's clients take: JSON is no plain text."""
    file = tmp_path / "client.properties"
    file.write_text(text)

    found = spark_kafka_options({CONFIG_VARIABLE: str(file)})

    assert found["kafka.security.protocol"] == "SASL_SSL"
    assert found["kafka.sasl.mechanism"] == "PLAIN"


@pytest.mark.parametrize(
    ("name", "value"),
    [("enable.ssl.certificate.verification", "False"), ("ssl.keystore.location", "/k.p12")],
)
def test_a_setting_without_a_counterpart_is_refused_by_name(name: str, value: str) -> None:
    """Left out in silence, Spark's connection would fail after the whole run."""
    with pytest.raises(ValueError, match=name):
        java_options({"security.protocol": "ssl", name: value})
