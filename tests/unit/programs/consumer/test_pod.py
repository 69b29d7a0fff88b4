"""What the poll thread makes of fetched messages."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Message, Producer
from tests.unit.programs.consumer.fake_group import Reported, chunk

from lagbench.core.telemetry.records_of_programs import PodStopped
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.consumer.assembly import consumer_settings
from lagbench.programs.consumer.consumer_pod import (
    ConsumerPod,
    chunk_by_headers,
    chunk_of,
    queue_records,
    stream_start_of,
)
from lagbench.programs.consumer.consumer_settings import ConsumerOptions, parse_options
from lagbench.programs.consumer.ledger import ledger_settings
from lagbench.programs.consumer.pod_reports import PodCounts, PodReports
from lagbench.shared_with_spark.event import identity_headers
from pod_program.http_endpoint import HttpEndpoint, address_and_port
from pod_program.kafka_settings import RECOVERY
from pod_program.steady_clock import SteadyClock

VALUES = [bytes(event) for event in chunk(10, 4).events]


def message(offset: int, value: bytes | None) -> Message:
    """Return a message as the client hands it over."""
    return Message(topic="events", partition=3, offset=offset, value=cast("Any", value))


@pytest.mark.parametrize("stranger", [None, b"", b"x" * 255, b"x" * 512])
def test_messages_become_one_chunk(stranger: bytes | None) -> None:
    """Offsets and events keep their order; a foreign record does not shift its neighbours."""
    whole = chunk_of([message(10 + i, VALUES[i]) for i in range(4)], arrived_at=5)
    found = chunk_of([message(10, VALUES[0]), message(11, stranger), message(12, VALUES[2])], 5)

    assert whole is not None
    assert list(whole.offsets) == [10, 11, 12, 13]
    assert list(whole.events["seq"]) == [1010, 1011, 1012, 1013]
    assert found is not None
    assert list(found.offsets) == [10, 12]
    assert chunk_of([message(11, stranger)], 5) is None


def test_identities_in_headers_become_one_chunk() -> None:
    """Whatever the values are; a record without the run's header is skipped like a stranger."""
    events = chunk(10, 3).events
    own, other = identity_headers(events, "r"), identity_headers(events, "another")
    headers = [own[0], other[1], None, own[2]]
    messages = [
        Message(topic="events", partition=3, offset=10 + place, value=b"any", headers=found)
        for place, found in enumerate(headers)
    ]

    found = chunk_by_headers(messages, 5, "r")

    assert found is not None
    assert list(found.offsets) == [10, 13]
    for field in ("seq", "entity_id", "planned_offset_ns"):
        assert list(found.events[field]) == list(events[field][[0, 2]])
    assert chunk_by_headers(messages[1:3], 5, "r") is None


def test_the_streams_start_follows_from_an_event() -> None:
    """The planned instant minus the planned offset; a foreign record before it does not count."""
    planned_at_ms, found = 1_700_000_000_123, chunk(10, 2)
    records: Any = [
        SimpleNamespace(offset=lambda at=at: at, timestamp=lambda ms=ms: (1, ms))
        for at, ms in ((9, 1), (10, planned_at_ms))
    ]

    assert stream_start_of(records, found) == planned_at_ms * 1_000_000 - 110


@pytest.mark.parametrize(
    ("pod_rate", "records"),
    [(500.0, 250), (4000.0, 2000), (None, 4000), (6_400_000.0, 4000), (0.01, 200)],
)
def test_a_queue_holds_half_a_second_of_work(pod_rate: float | None, records: int) -> None:
    """Queues are bounded by work, between 200 and 4000 records."""
    assert queue_records(pod_rate) == records


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ["unsubscribed", "committed", "closed"]),
        # It does not leave the group, so there is nothing to announce.
        (("--static-membership",), ["committed", "closed"]),
        (("--commit=auto",), ["unsubscribed", "closed"]),
        (("--drain=off",), ["closed"]),
    ],
)
def test_a_pod_that_leaves_joins_no_rebalance_of_others(
    flags: tuple[str, ...], expected: list[str]
) -> None:
    """With its work done it unsubscribes before it commits: no heartbeat makes it join again."""
    asked: list[str] = []
    reported, chosen = Reported(), options(*flags)
    client = SimpleNamespace(
        unsubscribe=lambda: asked.append("unsubscribed"),
        close=lambda: asked.append("closed"),
        commit=lambda *, offsets, **_: asked.append("committed") or offsets,
        memberid=lambda: "member-1",
        assignment=lambda: [3],
    )
    reports = PodReports(chosen, reported.send, PodCounts(), SteadyClock())
    pod = ConsumerPod(chosen, cast("Any", client), reports, SteadyClock())
    pod.queues.own([3], "member-1")
    pod.queues.owned()[0].committable = 7
    pod.ask_to_stop("SIGTERM")
    pod.worker.start()

    pod.leave()

    assert asked == expected
    (stopped,) = reported.of(PodStopped)
    is_graceful = "--drain=off" not in flags
    assert (stopped.reason, stopped.is_graceful, stopped.abandoned) == ("SIGTERM", is_graceful, 0)


@pytest.fixture
def endpoint() -> Iterator[HttpEndpoint]:
    """Provide an endpoint on a free port."""
    running = HttpEndpoint("127.0.0.1", 0, {})
    yield running
    running.close()


def test_a_taken_port_is_named(endpoint: HttpEndpoint) -> None:
    """The world is not ready; the message names the variable to set."""
    with pytest.raises(NotReady, match="PORT_METRICS"):
        HttpEndpoint("127.0.0.1", endpoint.port, {})


def test_the_environment_names_the_port_and_loopback_is_the_default() -> None:
    """Only BIND_ADDRESS opens it to others; what is no port is named with its variable."""
    assert address_and_port({}) == ("127.0.0.1", 8080)
    assert address_and_port({"BIND_ADDRESS": "10.1.2.3", "PORT_METRICS": "9"}) == ("10.1.2.3", 9)
    for port in ("no", "-1", "65536"):
        with pytest.raises(WrongInput, match=f"PORT_METRICS = '{port}'"):
            address_and_port({"PORT_METRICS": port})


def test_a_client_that_sends_nothing_is_let_go(
    endpoint: HttpEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would keep a thread."""
    monkeypatch.setattr("pod_program.http_endpoint._Handler.timeout", 0.05)
    with socket.create_connection(("127.0.0.1", endpoint.port), timeout=60) as silent:
        assert silent.recv(1) == b""


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
    """One dash, and the lab's names of the graceful shutdown.

    Without localkube's number the pod's name draws the delay: the same for the same name.
    """
    flags = "-process-ms=1.5 -balancer range -commit=auto -drain-timeout=7 -drain=off"
    found = options(*flags.split(), "-static-membership")

    assert (found.process_ms, found.balancer, found.commit) == (1.5, "range", "auto")
    assert (found.shutdown_timeout_seconds, found.graceful_shutdown) == (7.0, False)
    assert (found.instance_id, options().instance_id) == ("consumer-7", None)
    pods = [options("--start-seconds=20", POD_NAME=name) for name in ("x", "x", "y")]
    first, again, other = (pod.start_delay_seconds for pod in pods)
    assert first == again != other
    assert 15 <= first <= 25


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


@pytest.mark.parametrize("balancer", ["range", "roundrobin", "cooperative-sticky", "consumer"])
@pytest.mark.parametrize("commit", ["auto", "manual"])
def test_librdkafka_takes_the_settings(balancer: str, commit: str) -> None:
    """No combination is rejected; KIP-848 leaves classic settings to the broker.

    An offset moves only when the ledger has the record, unless commits are automatic. After an
    outage both clients of a pod learn of a leader long before a message expires.
    """
    chosen = options(f"--balancer={balancer}", f"--commit={commit}")
    settings, of_ledger = consumer_settings(chosen), ledger_settings(chosen)
    Consumer(settings | {"log_level": 0}).close()
    Producer(of_ledger | {"log_level": 0})

    is_auto, is_next = commit == "auto", balancer == "consumer"
    assert settings["enable.auto.commit"] is settings["enable.auto.offset.store"] is is_auto
    assert settings["group.protocol"] == ("consumer" if is_next else "classic")
    classic = {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"}
    assert classic & settings.keys() == (set() if is_next else classic)
    assert all(found.items() >= RECOVERY.items() for found in (settings, of_ledger))
    refreshes = RECOVERY["topic.metadata.refresh.interval.ms"]
    assert refreshes * 10 <= of_ledger["message.timeout.ms"]
