"""The consumer's settings."""

from __future__ import annotations

import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer

from lagbench.adapters.kafka.kafka_connections import RECOVERY
from lagbench.errors import WrongInput
from lagbench.programs.consumer.consumer_settings import ConsumerOptions, parse_options
from lagbench.programs.consumer.kafka_settings import consumer_settings, ledger_settings

ENVIRONMENT = {"POD_NAME": "consumer-7", "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def options(*arguments: str, **environment: str) -> ConsumerOptions:
    """Parse flags of the run quick-1."""
    return parse_options(["--run-id", "quick-1", *arguments], ENVIRONMENT | environment)


def test_the_run_id_names_topics_and_group_that_are_not_given() -> None:
    """A flag says more than the run id; the second group has names of its own."""
    found = options("--topic=elsewhere")

    assert (found.topic, found.group) == ("elsewhere", "enrich.quick-1")
    assert found.processed_topic == "lagbench.quick-1.processed"
    assert found.telemetry_topic == "lagbench.quick-1.telemetry"
    assert (found.bootstrap_servers, found.pod_name) == ("127.0.0.1:9092", "consumer-7")
    assert options("--is-second").group == "enrich.quick-1.second"


def test_the_labs_flags_are_read() -> None:
    """One dash, and the lab's names of the graceful shutdown."""
    flags = "-process-ms=1.5 -balancer range -commit=auto -drain-timeout=7 -drain=off"
    found = options(*flags.split(), "-static-membership")

    assert (found.process_ms, found.balancer, found.commit) == (1.5, "range", "auto")
    assert (found.shutdown_timeout_seconds, found.graceful_shutdown) == (7.0, False)
    assert (found.instance_id, options().instance_id) == ("consumer-7", None)


@pytest.mark.parametrize(
    ("argument", "field"),
    [
        ("--balancer=sticky", "--balancer"),
        ("--process-ms=-1", "--process-ms"),
        ("--process-ms=nan", "--process-ms"),
        ("--process-ms=fast", "--process-ms"),
        ("--concurrency=0", "--concurrency"),
        ("--concurrency=1.5", "--concurrency"),
        ("--drain=maybe", "--drain"),
        ("--drain-timeout=0", "--drain-timeout"),
        ("--session-timeout-ms=10", "--session-timeout-ms"),
        ("--slow-downstream=[[9,5,2]]", "--slow-downstream"),
        ("--colour=red", "command line"),
    ],
)
def test_a_refused_flag_is_named(argument: str, field: str) -> None:
    """The error has the flag."""
    with pytest.raises(WrongInput) as refused:
        options(argument)

    assert refused.value.field == field


def test_pods_of_a_cluster_are_distinguished_by_their_names() -> None:
    """Without localkube's number the pod's name draws the delay: the same for the same name."""
    found = [options("--start-seconds=20", POD_NAME=name) for name in ("x", "x", "y")]
    first, again, other = (one.start_delay_seconds for one in found)

    assert first == again != other
    assert 15 <= first <= 25


@pytest.mark.parametrize(
    ("arguments", "environment", "field"),
    [
        ([], ENVIRONMENT, "--topic"),
        (["--run-id=a"], {"KAFKA_BOOTSTRAP_SERVERS": "b:1"}, "POD_NAME"),
    ],
)
def test_without_topic_or_name_nothing_starts(
    arguments: list[str], environment: dict[str, str], field: str
) -> None:
    """A consumer must know what to consume; ledger and telemetry name the pod."""
    with pytest.raises(WrongInput, check=lambda error: error.field == field):
        parse_options(arguments, environment)


def test_the_program_exits_2_with_one_line() -> None:
    """A rejected flag costs exit code 2 and one line, no traceback."""
    command = [sys.executable, "-m", "lagbench.programs.consumer", "--balancer=sticky"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)

    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "cooperative-sticky" in ended.stderr


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
