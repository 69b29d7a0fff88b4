"""Embedded broker or foreign cluster, and which port."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from lagbench.core.cluster.own_deployment import KafkaSettings
from lagbench.embedded import child_server as ports
from lagbench.embedded.bench import kafka_settings
from lagbench.embedded.broker import Broker
from lagbench.embedded.kafka_choice import embedded_port, foreign_cluster
from lagbench.errors import NotReady, WrongInput
from localkube import ports as localkube_ports


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "AIRFLOW_CONN_KAFKA_DEFAULT", "LAGBENCH_KAFKA_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("as_text", [False, True])
def test_connection_brings_all_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_text: bool
) -> None:
    """The Airflow connection's extra, object or text, holds librdkafka's settings."""
    extra = {"bootstrap.servers": "kafka:9093", "security.protocol": "SSL", "linger.ms": 5}
    value = {"conn_type": "kafka", "extra": json.dumps(extra) if as_text else extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(value))

    found = foreign_cluster(tmp_path / "port")

    assert found is not None
    assert found.bootstrap_servers == "kafka:9093"
    assert found.settings["linger.ms"] == "5"
    assert "SSL" not in repr(found)


def test_an_own_consumer_gets_the_settings_that_the_pods_will_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the bench is up, too: a file of settings is there if they are more than an address."""
    assert kafka_settings(tmp_path) == KafkaSettings({}, None)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    assert kafka_settings(tmp_path).file is None
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS")
    extra = {"bootstrap.servers": "kafka:9093", "enable.ssl.certificate.verification": False}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps({"extra": extra}))

    found = kafka_settings(tmp_path)

    assert found.value("enable.ssl.certificate.verification") == "false"
    assert found.value("security.protocol") == "plaintext"
    assert found.file == str(tmp_path / "kafka-client.properties")


def test_own_address_is_not_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's tasks carry the embedded broker's address and may start it again."""
    port = embedded_port(tmp_path / "port")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{port}")

    assert foreign_cluster(tmp_path / "port") is None


@pytest.mark.parametrize(
    ("variable", "values", "named"),
    [
        (
            "AIRFLOW_CONN_KAFKA_DEFAULT",
            ("{", '{"extra": {}}', "kafka://somewhere", "[]"),
            "AIRFLOW_CONN_KAFKA_DEFAULT",
        ),
        ("LAGBENCH_KAFKA_PORT", ("0", "65536", "kafka", "-1"), "65535"),
    ],
)
def test_an_unusable_variable_is_wrong_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    values: tuple[str, ...],
    named: str,
) -> None:
    """A connection without bootstrap.servers, and what is no port number."""
    for value in values:
        monkeypatch.setenv(variable, value)
        with pytest.raises(WrongInput, match=named):
            (embedded_port if "PORT" in variable else foreign_cluster)(tmp_path / "port")


def test_free_port_lies_below_the_ephemeral_range() -> None:
    """The kernel gives no outgoing connection a port that a stopped broker must find again."""
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])

    assert all(1024 < ports.free_port() < lowest for _ in range(20))


def test_free_port_leaves_out_what_is_promised_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that nobody listens on yet, but somebody will, is not given out."""
    monkeypatch.setattr(localkube_ports, "is_free", lambda port: port in {20_001, 20_002})

    assert ports.free_port(besides={20_001}) == 20_002


def test_taken_port_is_named_with_its_owner(tmp_path: Path) -> None:
    """The message has the port and the process; a broker writes and starts nothing then.

    A remembered port that nobody asked for is replaced when somebody else has it now.
    """
    with socket.socket() as server:
        server.bind((localkube_ports.LOOPBACK, 0))
        server.listen()
        port = server.getsockname()[1]

        assert not localkube_ports.is_free(port)
        assert ports.accepts_connections(port)
        with pytest.raises(NotReady, match=rf"port {port}.*process {os.getpid()}"):
            ports.require_free(port, "test")
        with pytest.raises(NotReady, match="Kafka broker"):
            Broker(tmp_path / "broker", port=port).start()
        assert not (tmp_path / "broker").exists()
        (tmp_path / "port").write_text(f"{port}\n")
        assert embedded_port(tmp_path / "port") != port

    assert localkube_ports.is_free(port)
    assert not ports.accepts_connections(port)


def test_broker_refuses_a_full_disk(tmp_path: Path) -> None:
    """Need and have are said before anything is started."""
    broker = Broker(tmp_path / "broker", free_bytes=lambda _: 1024**3)

    with pytest.raises(NotReady, match=r"2\.0 GiB.*1\.0 GiB"):
        broker.start()

    assert broker.state() == "stopped"
