"""The log-in of a kafka trigger: its own, else the one of the bench's Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.triggers import read_trigger

from lagbench.adapters.kafka.kafka_trigger import trigger_settings
from lagbench.core.keda.triggers.kafka import KafkaTrigger
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE


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
    """A secured bench is not asked in plain text."""
    assert trigger_settings(trigger()) == {
        "bootstrap.servers": "kafka:9092",
        "security.protocol": "ssl",
        "client.id": "bench",
    }


def test_a_trigger_with_a_log_in_has_nothing_of_the_bench() -> None:
    """Its cluster may be another one."""
    assert trigger_settings(trigger(tls="enable")) == {"security.protocol": "ssl"}
