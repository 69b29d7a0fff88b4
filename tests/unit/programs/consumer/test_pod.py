"""What the poll thread makes of fetched messages."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Message, Producer
from tests.unit.programs.consumer.fake_group import chunk

from lagbench.errors import NotReady, WrongInput
from lagbench.programs.consumer.consumer_pod import (
    ConsumerPod,
    chunk_by_headers,
    chunk_of,
    queue_records,
    stream_start_of,
)
from lagbench.programs.consumer.consumer_settings import ConsumerOptions, parse_options
from lagbench.programs.consumer.kafka_settings import consumer_settings, ledger_settings
from lagbench.programs.consumer.pod_reports import Exposition, PodCounts
from lagbench.shared_with_spark.event import identity_headers
from pod_program.http_endpoint import HttpEndpoint, address_and_port, probe_routes
from pod_program.kafka_settings import RECOVERY

VALUES = [bytes(event) for event in chunk(10, 4).events]


def message(offset: int, value: bytes | None) -> Message:
    """Return a message as the client hands it over."""
    return Message(topic="events", partition=3, offset=offset, value=cast("Any", value))


def test_messages_become_one_chunk() -> None:
    """Offsets and events keep their order."""
    found = chunk_of([message(10 + i, VALUES[i]) for i in range(4)], arrived_at=5)

    assert found is not None
    assert list(found.offsets) == [10, 11, 12, 13]
    assert list(found.events["seq"]) == [1010, 1011, 1012, 1013]


@pytest.mark.parametrize("stranger", [None, b"", b"x" * 255, b"x" * 512])
def test_records_that_are_no_events_are_skipped(stranger: bytes | None) -> None:
    """A foreign record neither stops the pod nor shifts its neighbours."""
    found = chunk_of([message(10, VALUES[0]), message(11, stranger), message(12, VALUES[2])], 5)

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
    records = [StampedMessage(9, 1), StampedMessage(10, planned_at_ms)]

    assert stream_start_of(cast("Any", records), found) == planned_at_ms * 1_000_000 - 110


class StampedMessage:
    """A message with a timestamp, which only the client itself can give one."""

    def __init__(self, offset: int, at_ms: int) -> None:
        """Answer with both."""
        self.offset = lambda: offset
        self.timestamp = lambda: (1, at_ms)


@pytest.mark.parametrize(
    ("pod_rate", "records"),
    [(500.0, 250), (4000.0, 2000), (None, 4000), (6_400_000.0, 4000), (0.01, 200)],
)
def test_a_queue_holds_half_a_second_of_work(pod_rate: float | None, records: int) -> None:
    """Queues are bounded by work, between 200 and 4000 records."""
    assert queue_records(pod_rate) == records


class LeavingPod:
    """A pod whose parts only note what is asked of them, in order."""

    def __init__(self, *, has_static_membership: bool) -> None:
        """Own one partition, all of it done."""
        self.asked: list[str] = []
        work = SimpleNamespace(partition=3, queued=0, in_flight=0)
        queues = SimpleNamespace(
            counts=lambda: SimpleNamespace(queued=0, in_flight=0),
            owned=lambda: [work],
            close=lambda _numbers, **_: ([work], 0),
            wait_settled=self._noting("settled", answer=True),
            processed_total=7,
        )
        options = SimpleNamespace(
            pod_rate_per_second=500.0,
            topic="events",
            graceful_shutdown=True,
            shutdown_timeout_seconds=60.0,
            commit="manual",
            commits_what_is_done=True,
            is_transactional=False,
            instance_id="pod-0" if has_static_membership else None,
        )
        parts: dict[str, Any] = {
            "consumer": SimpleNamespace(
                unsubscribe=self._noting("unsubscribed"), close=self._noting("closed")
            ),
            "queues": queues,
            "costs": SimpleNamespace(),
            "worker": SimpleNamespace(stop=lambda **_: None),
            "commits": SimpleNamespace(commit_now=self._noting("committed", answer=True)),
            "rebalancing": SimpleNamespace(),
            "identity": SimpleNamespace(),
            "reports": SimpleNamespace(
                send=lambda *_, **__: None, pod_stopped=lambda *_, **__: None
            ),
            "pod_counts": SimpleNamespace(),
            "clock": SimpleNamespace(),
            "downstream": SimpleNamespace(),
        }
        ConsumerPod(cast("Any", options), **parts).leave()

    def _noting(self, what: str, *, answer: bool = False) -> Callable[..., bool]:
        def note(*_: object, **__: object) -> bool:
            self.asked.append(what)
            return answer

        return note


def test_a_pod_that_leaves_joins_no_rebalance_of_others() -> None:
    """With its work done it unsubscribes before it commits: no heartbeat makes it join again."""
    leaving = LeavingPod(has_static_membership=False)

    assert leaving.asked == ["settled", "unsubscribed", "committed", "closed"]


def test_a_static_member_keeps_its_place() -> None:
    """It does not leave the group, so there is nothing to announce."""
    leaving = LeavingPod(has_static_membership=True)

    assert leaving.asked == ["settled", "committed", "closed"]


@pytest.fixture
def pod_counts() -> PodCounts:
    """Provide figures of a pod that has seen two rebalances."""
    found = PodCounts()
    found.consume_rate, found.inflight, found.assigned_partitions = 480.5, 3, 6
    found.rebalances_total, found.rebalance_seconds = 2, [0.02, 0.3]
    return found


@pytest.fixture
def endpoint(pod_counts: PodCounts) -> Iterator[HttpEndpoint]:
    """Provide the endpoint on a free port."""
    routes = {"/metrics": Exposition(pod_counts), **probe_routes(lambda: pod_counts.is_ready)}
    running = HttpEndpoint("127.0.0.1", 0, routes)
    yield running
    running.close()


def get(endpoint: HttpEndpoint, path: str) -> tuple[int, str]:
    """Return status and body."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{endpoint.port}{path}", timeout=60
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_a_taken_port_is_said_so(endpoint: HttpEndpoint) -> None:
    """The world is not ready; the message names the variable to set."""
    with pytest.raises(NotReady, match="PORT_METRICS"):
        HttpEndpoint("127.0.0.1", endpoint.port, {})


@pytest.mark.parametrize("port", ["no", "-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    """The message names variable and value."""
    with pytest.raises(WrongInput, match=f"PORT_METRICS = '{port}'"):
        address_and_port({"PORT_METRICS": port})


def test_it_listens_on_loopback_by_default() -> None:
    """Only BIND_ADDRESS opens it to others."""
    assert address_and_port({}) == ("127.0.0.1", 8080)
    assert address_and_port({"BIND_ADDRESS": "10.1.2.3", "PORT_METRICS": "9"}) == ("10.1.2.3", 9)


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
