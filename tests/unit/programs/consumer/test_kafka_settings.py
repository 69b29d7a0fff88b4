"""librdkafka's settings."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from lagbench.adapters.kafka.recovery import RECOVERY
from lagbench.programs.consumer.kafka_settings import consumer_settings, ledger_settings
from lagbench.programs.consumer.settings import ConsumerOptions, parse_options

POD = {"POD_NAME": "consumer-7", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}


def flags_of(*arguments: str) -> ConsumerOptions:
    """Parse flags of the run quick-1."""
    return parse_options(["--run-id", "quick-1", *arguments], POD)


@pytest.mark.parametrize("balancer", ["range", "roundrobin", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("commit", ["auto", "manual"])
def test_librdkafka_takes_the_settings(balancer: str, commit: str) -> None:
    """No combination of flags is rejected by the client itself."""
    settings = consumer_settings(flags_of(f"--balancer={balancer}", f"--commit={commit}"))

    Consumer(settings | {"log_level": 0}).close()


def test_librdkafka_takes_the_ledgers_settings() -> None:
    """The ledger's producer opens."""
    Producer(ledger_settings(flags_of()) | {"log_level": 0})


def test_kip_848_leaves_classic_settings_to_the_broker() -> None:
    """Under KIP-848 the broker assigns and times sessions."""
    settings = consumer_settings(flags_of("--balancer=consumer"))

    assert settings["group.protocol"] == "consumer"
    classic = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
    assert settings.keys().isdisjoint(classic)


def test_manual_commits_store_nothing_by_themselves() -> None:
    """An offset moves only when the ledger has the record."""
    settings = consumer_settings(flags_of("--commit=manual"))

    assert settings["enable.auto.commit"] is False
    assert settings["enable.auto.offset.store"] is False


def test_a_partition_without_a_leader_is_asked_for_again_in_time() -> None:
    """After an outage both clients of a pod learn of a leader long before a message expires."""
    for settings in (consumer_settings(flags_of()), ledger_settings(flags_of())):
        assert settings.items() >= RECOVERY.items()
    expires_after = ledger_settings(flags_of())["message.timeout.ms"]

    assert RECOVERY["topic.metadata.refresh.interval.ms"] * 10 <= expires_after
