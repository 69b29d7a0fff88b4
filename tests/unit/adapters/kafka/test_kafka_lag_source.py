"""What a sample of the lag scaler asks a Kafka cluster for."""

from __future__ import annotations

import contextlib
import gc
import time
import weakref
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from lag_scaler import kafka_source as kafka_lag_source
from lag_scaler.kafka_source import KafkaLagSource
from lag_scaler.offsets import NO_OFFSET, GroupTopic, OffsetHistory, RuleColumns
from lag_scaler.rule import LagRule
from lagbench.adapters.kafka.kafka_lag import _end, open_admin, read_offsets, read_partitions
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.core.telemetry.records_of_programs import GroupJoined
from lagbench.errors import NotReady
from pod_program.kafka_settings import RECOVERY

ITEM = GroupTopic("enrich", "events")


class Cluster:
    """A topic with two partitions; a test sets their offsets."""

    def __init__(self) -> None:
        """Keep the last 50 records of partition 0; partition 1 is whole."""
        self.start, self.end = [1_000_000, 0], [1_000_050, 100]
        self.committed = [1_000, 60]
        self.starts_asked: list[list[int]] = []
        self.clients = 0

    def connect(self, *_: object, **__: object) -> Client:
        """Open a client."""
        self.clients += 1
        return Client(self)


class Client:
    """Answers as the admin client does, at once."""

    def __init__(self, cluster: Cluster) -> None:
        """Speak to ``cluster``."""
        self._cluster = cluster

    def poll(self, _seconds: float) -> int:
        """Count nothing."""
        return 0

    def describe_topics(self, _topics: Any, **_: object) -> dict[str, Future[Any]]:
        """Describe the topic."""
        partitions = [SimpleNamespace(id=number) for number in range(2)]
        return {"events": _done(SimpleNamespace(partitions=partitions))}

    def list_offsets(self, request: dict[TopicPartition, Any], **_: object) -> dict[Any, Any]:
        """Return the ends, or the starts."""
        is_start = next(iter(request.values())) == "earliest"
        if is_start:
            self._cluster.starts_asked.append([place.partition for place in request])
        offsets = self._cluster.start if is_start else self._cluster.end
        return {p: _done(SimpleNamespace(offset=offsets[p.partition])) for p in request}

    def list_consumer_group_offsets(self, request: Any, **_: object) -> dict[str, Future[Any]]:
        """Return the commits."""
        found = [
            TopicPartition("events", number, offset)
            for number, offset in enumerate(self._cluster.committed)
            if offset != NO_OFFSET
        ]
        return {request[0].group_id: _done(SimpleNamespace(topic_partitions=found))}


def _done(answer: object) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(answer)
    return future


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Provide the cluster that the source connects to."""
    cluster = Cluster()
    monkeypatch.setattr(kafka_lag_source, "AdminClient", cluster.connect)
    spec = SimpleNamespace(earliest=lambda: "earliest", latest=lambda: "latest")
    monkeypatch.setattr(kafka_lag_source, "_SPEC", spec)
    return cluster


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Provide a monotonic clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_records_that_retention_removed_behind_a_commit_are_not_lag(cluster: Cluster) -> None:
    """A commit of 1,000 in a log that starts at 1,000,000 has the 50 records of the log to read."""
    history = OffsetHistory(5)

    history.append(KafkaLagSource({}, timeout_seconds=5.0).sample([ITEM], 1)[ITEM])

    assert RuleColumns(LagRule(), history).lag(-1).tolist() == [50, 40]
    assert cluster.starts_asked == [[0, 1]]


def test_log_starts_are_asked_for_where_a_commit_stands_still(
    cluster: Cluster, clock: list[float]
) -> None:
    """Partition 0, whose commits move, is not asked for; nor is 1 while it has nothing to read."""
    source = KafkaLagSource({}, timeout_seconds=5.0)
    cluster.committed = [1_000_050, 100]
    source.sample([ITEM], 1)
    for second in range(10, 40, 10):
        clock[0] = 100.0 + second
        cluster.end = [1_000_050 + second, 100 + second]
        cluster.committed = [1_000_050 + second - 5, 100]
        source.sample([ITEM], 1)

    assert cluster.starts_asked == [[1], [1], [1]]


def test_log_starts_of_a_still_group_are_asked_for_at_most_every_five_seconds(
    cluster: Cluster, clock: list[float]
) -> None:
    """A sampling interval of a second does not make it a request a second."""
    source = KafkaLagSource({}, timeout_seconds=5.0)
    for second in range(11):
        clock[0] = 100.0 + second
        source.sample([ITEM], 1)

    assert len(cluster.starts_asked) == 3


def test_the_log_start_of_a_partition_without_a_commit_is_in_every_sample(
    cluster: Cluster, clock: list[float]
) -> None:
    """With the policy earliest all its records are lag."""
    source = KafkaLagSource({}, timeout_seconds=5.0)
    cluster.committed = [NO_OFFSET, 100]
    for _ in range(3):
        clock[0] += 1.0
        sample = source.sample([ITEM], 1)[ITEM]
        assert sample.earliest is not None
        assert np.array_equal(sample.earliest, [1_000_000, NO_OFFSET])


def test_groups_that_come_and_go_share_the_connections(
    cluster: Cluster, clock: list[float]
) -> None:
    """A thousand groups one after another need the connections of those that are sampled."""
    source = KafkaLagSource({}, timeout_seconds=5.0)
    for number in range(1_000):
        clock[0] += 60.0
        item = GroupTopic(f"preview-{number}", "events")
        assert not source.sample([ITEM, item], 1)[item].error

    assert cluster.clients == 2


class UnansweredAdmin:
    """Fails every request as librdkafka does."""

    servers = "k:9092"

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        """Give an answer that never came."""
        answer: Future[Any] = Future()
        answer.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return {"events": answer}


def test_a_client_for_lag_looks_for_a_new_leader_soon_after_an_outage() -> None:
    """Its consumers have the same settings; the caller's own settings come before them."""
    assert open_admin("127.0.0.1:1")._settings.items() >= RECOVERY.items()
    given = open_admin("127.0.0.1:1", {"reconnect.backoff.max.ms": 2_000})
    assert given._settings["reconnect.backoff.max.ms"] == 2_000


class EmptyAnswer:
    """Answers for the end of a partition as librdkafka does where the broker had no answer."""

    offset = -1001


def test_an_end_without_an_offset_is_no_reading() -> None:
    """It would be told as an end offset below zero, and make the total lag wrong."""
    answer: Future[Any] = Future()
    answer.set_result(EmptyAnswer())

    with pytest.raises(NotReady):
        _end(UnansweredAdmin(), ("events", 0), answer, 0.1)  # type: ignore[arg-type]


class StartlessAdmin:
    """Has the end of a partition, no commit, and for its start an answer without an offset."""

    servers = "k:9092"

    def __init__(self) -> None:
        """Hold five messages."""
        self.answers: list[object] = [SimpleNamespace(offset=5), EmptyAnswer()]

    def list_offsets(self, request: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
        """Give the end to the first request, and nothing to the second."""
        answer: Future[Any] = Future()
        answer.set_result(self.answers.pop(0))
        return dict.fromkeys(request, answer)

    def consumer_of(self, _group: str) -> StartlessAdmin:
        """Be the consumer too."""
        return self

    def committed(self, places: list[TopicPartition], **_: object) -> list[TopicPartition]:
        """Return the places without an offset."""
        return places


def test_a_start_without_an_offset_is_not_known() -> None:
    """As a start of -1001 it would make 5 messages a lag of 1006."""
    admin: Any = StartlessAdmin()

    found = read_offsets(admin, "enrich", [("events", 0)], wants_earliest=lambda _: True)

    assert found == {("events", 0): PartitionOffsets(end=5, committed=None, earliest=None)}


def fail_once(admin: Any) -> None:
    """Ask, and forget the error."""
    with contextlib.suppress(NotReady):
        read_partitions(admin, "events", timeout_seconds=0.1)


def test_a_failed_request_does_not_keep_its_client() -> None:
    """The client ends with its last user: each has threads and connections of its own."""
    admin = UnansweredAdmin()
    client = weakref.ref(admin)
    gc.disable()
    try:
        fail_once(admin)
        del admin

        assert client() is None
    finally:
        gc.enable()


NOBODY = "127.0.0.1:1"


def test_sending_without_a_broker_returns_at_once() -> None:
    """Records wait in the queue; nothing is dropped, nothing fails."""
    log = TelemetryLog(NOBODY, "telemetry")
    began = time.monotonic()

    for at in range(100):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    assert time.monotonic() - began < 30
    assert log.dropped == 0


def test_a_full_queue_drops_and_counts() -> None:
    """A record that does not fit is counted, never raised into the sender's work."""
    log = TelemetryLog(NOBODY, "telemetry", queue_records=10)

    for at in range(25):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    assert log.dropped == 15


def test_a_flush_that_leaves_records_is_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says how many records are missing and where: the records themselves cannot."""
    log = TelemetryLog(NOBODY, "telemetry-7", queue_records=10)
    for at in range(12):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    log.flush(0.1)

    (error,) = [found for found in caplog.records if found.levelname == "ERROR"]
    assert error.args == ("telemetry-7", "127.0.0.1:1", 2, 10, 0.1)


def test_a_flush_that_delivers_everything_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Also after an earlier flush has told what was dropped."""
    log = TelemetryLog(NOBODY, "telemetry")
    assert log.flush(0.1) == 0
    assert caplog.records == []

    log.dropped = 3
    for _ in range(2):
        assert log.flush(0.1) == 0

    assert [found.levelname for found in caplog.records] == ["ERROR"]
