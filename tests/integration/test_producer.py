"""The producer as a process against a real broker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import KafkaException, Producer
from tests.eventually import WAIT_SECONDS, eventually
from tests.integration.producer_target import (
    PARTITIONS,
    ProducerTarget,
    log_sha256,
    make_target,
    read_all,
    value_of,
)

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.core.telemetry.records_of_programs import (
    LoadStep,
    ProducerProgress,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import LagSample
from lagbench.embedded.broker import Broker
from lagbench.shared_with_spark.event import decode_events
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow
SPIKE = ["-rate", "300", "-profile", "step", "-before-seconds", "1", "-spike-hold", "1s"]
SPIKE_EVENTS = 300 + 3000
GIVEN_UP = "events still wait for an acknowledgement"
LONG = ["-rate", "500", "-duration-seconds", "600"]
TAIL = ["-tail-rate", "400", "-tail-most-seconds", "600"]
PAUSE_SECONDS = 6.0  # a machine that holds a process up for seconds leaves it some of this


def reason_of(finished: StreamFinished) -> str:
    """Return the reason of the end, without the lateness that is the machine's."""
    parts = finished.reason.split("; ")
    return "; ".join(part for part in parts if not part.startswith("lateness")) or "completed"


@pytest.mark.smoke
def test_every_planned_event_is_in_the_log_once(
    target: ProducerTarget, kafka_admin: KafkaAdmin
) -> None:
    """Planned, sent, acknowledged and logged are one number, by identity and not only by count.

    The reports tell the stream from start to end, with both steps at their planned instants.
    """
    done = target.run(*SPIKE, "-partitions", str(PARTITIONS))

    assert done.returncode == 0, done.stderr
    messages = read_all(target, target.topic)
    finished = target.finished()
    assert (finished.planned, finished.sent, finished.acked) == (SPIKE_EVENTS,) * 3
    assert (finished.failed, finished.unknown, reason_of(finished)) == (0, 0, "completed")
    assert sum(kafka_admin.end_offsets(target.topic).values()) == SPIKE_EVENTS
    seqs = sorted(int(decode_events(value_of(m))["seq"][0]) for m in messages)
    assert seqs == list(range(SPIKE_EVENTS))
    assert finished.stream_sha256 == log_sha256(messages)
    assert json.loads(done.stdout)["acked"] == SPIKE_EVENTS

    started, *records = target.records()
    assert isinstance(started, StreamStarted)
    assert (started.planned_total, started.planned_seconds) == (SPIKE_EVENTS, 2)
    assert started.partitions == PARTITIONS
    steps = [
        (s.step, s.at - started.stream_started_at, s.rate_before, s.rate_after)
        for s in records
        if isinstance(s, LoadStep)
    ]
    assert steps == [
        ("spike_start", 1_000_000_000, 300, 3000),
        ("spike_end", 2_000_000_000, 3000, 0),
    ]
    progress = [record for record in records if isinstance(record, ProducerProgress)]
    assert progress
    assert all(p.acked <= p.sent <= p.planned for p in progress)
    assert isinstance(records[-1], StreamFinished)


def test_a_record_carries_its_key_its_planned_instant_and_kafkas_partition(
    target: ProducerTarget, kafka_admin: KafkaAdmin
) -> None:
    """The key is the entity, the timestamp the planned instant, the partition what Kafka picks."""
    assert target.run(*SPIKE).returncode == 0
    messages = read_all(target, target.topic)
    started = target.records()[0]
    assert isinstance(started, StreamStarted)

    reference = make_target(kafka_admin, target.bootstrap_servers)
    client = Producer(
        {"bootstrap.servers": target.bootstrap_servers, "partitioner": "murmur2_random"}
    )
    for key in {bytes(m.key() or b"") for m in messages}:
        client.produce(reference.topic, key=key)
    assert client.flush(120) == 0
    expected = {m.key(): m.partition() for m in read_all(reference, reference.topic)}

    for message in messages:
        event = decode_events(value_of(message))[0]
        planned_at = started.stream_started_at + int(event["planned_offset_ns"])
        assert message.key() == int(event["entity_id"]).to_bytes(8, "big")
        assert message.timestamp()[1] == planned_at // 1_000_000
        assert message.partition() == expected[message.key()]
    assert len(expected) > 500


@pytest.mark.smoke
def test_two_runs_of_a_seed_are_the_same_stream(
    target: ProducerTarget, broker: Broker, kafka_admin: KafkaAdmin
) -> None:
    """The same seed and profile give the same bytes at another time; another seed does not."""
    second = make_target(kafka_admin, broker.bootstrap_servers)
    other = make_target(kafka_admin, broker.bootstrap_servers)

    runs = [(target, "5"), (second, "5"), (other, "6")]
    digests = []
    for where, seed in runs:
        assert where.run(*SPIKE, "-seed", seed).returncode == 0
        digests.append(where.finished().stream_sha256)

    assert digests[0] == digests[1] != digests[2]


def test_the_stream_starts_at_its_planned_instant(broker: Broker, kafka_admin: KafkaAdmin) -> None:
    """With everything prepared the producer waits, and planned offset 0 is at that instant.

    How long it takes to prepare is the machine's: where the instant has passed by then, it is asked
    again with more time.
    """
    late_ns = []
    for ahead_seconds in (6, 30, 90):
        target = make_target(kafka_admin, broker.bootstrap_servers)
        starts_at_ns = time.time_ns() + ahead_seconds * 1_000_000_000
        done = target.run(*SPIKE, f"--starts-at-ns={starts_at_ns}")
        assert done.returncode == 0, done.stderr
        started = target.records()[0]
        assert isinstance(started, StreamStarted)
        assert target.finished().sent == SPIKE_EVENTS
        late_ns.append(started.stream_started_at - starts_at_ns)
        assert late_ns[-1] >= 0
        if late_ns[-1] < 1_000_000_000:
            return
    pytest.fail(f"the stream was late by {late_ns} ns")


def test_sigterm_stops_the_plan_and_accounts_for_what_was_sent(target: ProducerTarget) -> None:
    """After SIGTERM no event is planned, all sent ones are acknowledged, and the code is 143."""
    process = start_tied(target.command(*LONG))
    _await_reports(target)

    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=180)

    finished = target.finished()
    messages = read_all(target, target.topic)
    assert code == 143
    assert reason_of(finished) == "stopped"
    assert finished.sent == finished.acked == len(messages)
    assert 0 < finished.sent <= finished.planned < 500 * 600
    assert finished.stream_sha256 == log_sha256(messages)


def test_the_tail_goes_on_until_it_is_asked_to_stop(
    target: ProducerTarget, kafka_admin: KafkaAdmin
) -> None:
    """SIGTERM in the tail is the ordinary end: code 0, all acknowledged, the tail told apart."""
    process = start_tied(target.command(*SPIKE, *TAIL))
    _await_reports(target, lambda progress: progress.sent > SPIKE_EVENTS + 400)

    process.send_signal(signal.SIGTERM)
    code = process.wait(timeout=180)

    started, finished = target.records()[0], target.finished()
    messages = read_all(target, target.topic)
    assert code == 0
    assert isinstance(started, StreamStarted)
    assert (started.planned_total, started.planned_seconds) == (SPIKE_EVENTS, 2)
    assert (started.tail_rate_per_second, started.tail_most_seconds) == (400, 600)
    assert reason_of(finished) == "completed"
    assert finished.planned == finished.sent == finished.acked == len(messages)
    assert finished.tail_sent == finished.sent - SPIKE_EVENTS > 400
    assert finished.tail_seconds == pytest.approx(finished.tail_sent / 400, abs=0.1)
    assert (finished.failed_seqs, finished.unknown_seqs) == ([], [])

    alone = make_target(kafka_admin, target.bootstrap_servers)
    assert alone.run(*SPIKE).returncode == 0
    planned = read_all(alone, alone.topic)
    assert finished.stream_sha256 == alone.finished().stream_sha256 == log_sha256(planned)
    assert {value_of(m) for m in planned} < {value_of(m) for m in messages}


def test_the_tail_has_an_end_of_its_own(target: ProducerTarget) -> None:
    """When nobody stops it, the tail ends at its bound; that is no failure."""
    done = target.run(*SPIKE, "-tail-rate", "100", "-tail-most-seconds", "2")

    finished = target.finished()
    assert done.returncode == 0, done.stderr
    assert (finished.sent, finished.tail_sent, finished.tail_seconds) == (3500, 200, 2)
    assert reason_of(finished) == "completed"


def test_a_broken_limit_ends_the_stream_and_accounts_for_what_was_sent(
    target: ProducerTarget,
) -> None:
    """The recorder's reading of a lag above the limit: all sent are acknowledged, the code is 3."""
    process = start_tied(target.command(*LONG, "--abort", '{"lag_records": 1000}'))
    _await_reports(target)
    recorder = TelemetryLog(target.bootstrap_servers, target.telemetry_topic)
    reading = LagSample(at=time.time_ns(), source="recorder", partitions=[(0, 1001, None)])

    recorder.send(reading)
    recorder.flush()
    code = process.wait(timeout=180)

    finished = target.finished()
    assert code == 3
    assert "abort.lag_records" in finished.aborted
    assert finished.sent == finished.acked == len(read_all(target, target.topic))
    assert 0 < finished.sent <= finished.planned < 500 * 600


def test_failures_are_counted_and_named(broker: Broker, kafka_admin: KafkaAdmin) -> None:
    """A topic that rejects every event makes each one failed, none acknowledged, none unknown."""
    target = make_target(kafka_admin, broker.bootstrap_servers, {"max.message.bytes": "100"})

    done = target.run("-rate", "50", "-duration-seconds", "1")

    finished = target.finished()
    assert done.returncode == 3
    assert (finished.sent, finished.failed, finished.acked, finished.unknown) == (50, 50, 0, 0)
    assert (finished.failed_seqs, finished.unknown_seqs) == ([(0, 49)], [])
    assert "50 events failed" in finished.reason
    assert "too large" in finished.reason.lower()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["-rate", "0", "-duration-seconds", "1"], 2, "--rate = '0'"),
        ([*LONG, "-partitions", "7"], 2, "--partitions = 7"),
        ([*LONG, "-topic=lagbench.absent"], 3, "lagbench.absent"),
    ],
)
def test_nothing_is_sent_when_the_input_is_wrong(
    target: ProducerTarget, kafka_admin: KafkaAdmin, arguments: list[str], code: int, message: str
) -> None:
    """Wrong flags and partitions end with 2, an absent topic with 3, before any event."""
    done = target.run(*arguments)

    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert sum(kafka_admin.end_offsets(target.topic).values()) == 0


@pytest.fixture
def own_target(own_broker: Broker) -> Iterator[ProducerTarget]:
    """Provide topics on a broker that the test may stop."""
    own_broker.start()
    with KafkaAdmin(own_broker.bootstrap_servers) as admin:
        yield make_target(admin, own_broker.bootstrap_servers)


def test_an_outage_of_the_broker_delays_no_plan_and_loses_nothing(
    own_broker: Broker, own_target: ProducerTarget
) -> None:
    """Events planned during a broker outage wait in the client and arrive after it."""
    process = start_tied(own_target.command("-rate", "400", "-duration-seconds", "20"))
    try:
        _await_reports(own_target)
        own_broker.stop()
        away_at = time.time_ns()
        own_broker.start()
        back_at = time.time_ns()
        code = process.wait(timeout=300)
    finally:
        end_process(process.pid, grace_seconds=2)

    finished = own_target.finished()
    messages = read_all(own_target, own_target.topic)
    assert code == 0
    assert (finished.sent, finished.acked, len(messages)) == (8000, 8000, 8000)
    assert finished.stream_sha256 == log_sha256(messages)
    assert finished.lateness_p50_ms < 1000
    waiting = [
        record.sent - record.acked
        for record in own_target.records()
        if isinstance(record, ProducerProgress) and away_at < record.at < back_at
    ]
    assert waiting
    assert max(waiting) > 0


def test_progress_is_reported_each_second_of_spike_tail_and_flush(
    own_broker: Broker, own_target: ProducerTarget
) -> None:
    """Messages in the client are known at any time: sent - acked, also in an outage."""
    process = start_tied(own_target.command(*SPIKE, *TAIL))
    pid = own_broker.pid
    assert pid is not None
    try:
        _await_reports(own_target, lambda progress: progress.sent > SPIKE_EVENTS + 400)
        os.kill(pid, signal.SIGSTOP)  # an outage that takes no start of a JVM to end
        stopped_at = time.time_ns()
        _await_elapsed(PAUSE_SECONDS)
        process.send_signal(signal.SIGTERM)
        asked_at = time.time_ns()
        _await_elapsed(PAUSE_SECONDS)
        back_at = time.time_ns()
        os.kill(pid, signal.SIGCONT)
        code = process.wait(timeout=300)
    finally:
        os.kill(pid, signal.SIGCONT)
        end_process(process.pid, grace_seconds=2)

    records, finished = own_target.records(), own_target.finished()
    progress = [record for record in records if isinstance(record, ProducerProgress)]
    started = records[0]
    assert isinstance(started, StreamStarted)
    instants = [started.at, *(record.at for record in progress), finished.at]
    assert code == 0
    steps = np.diff(instants)
    assert np.median(steps) < 1.7e9, steps / 1e9  # one may be longer: the machine's own
    spike_at, tail_at = (started.at + second * 1_000_000_000 for second in (1, 2))
    for since, until in ((spike_at, tail_at + 1_000_000_000), (tail_at, stopped_at)):
        assert any(since < p.at < until for p in progress), steps / 1e9
    for since, until in ((stopped_at, asked_at), (asked_at, back_at)):
        waiting = [p.sent - p.acked - p.failed for p in progress if since < p.at < until]
        assert waiting, steps / 1e9
        assert max(waiting) > 0
    assert finished.sent == finished.acked == finished.planned


def test_what_nobody_answered_for_is_named(
    own_broker: Broker, own_target: ProducerTarget, tmp_path: Path
) -> None:
    """A broker that stands still through the last flush leaves seqs of unknown outcome, by name."""
    log_file = tmp_path / "producer.log"
    with log_file.open("wb") as log:
        process = start_tied(own_target.command(*SPIKE, *TAIL), log=log)
    pid = own_broker.pid
    assert pid is not None
    try:
        _await_reports(own_target, lambda progress: progress.sent > SPIKE_EVENTS + 400)
        os.kill(pid, signal.SIGSTOP)
        _await_elapsed(PAUSE_SECONDS)
        process.send_signal(signal.SIGTERM)
        eventually(lambda: GIVEN_UP in log_file.read_text(), "the end of the last flush")
        os.kill(pid, signal.SIGCONT)  # for the last report
        code = process.wait(timeout=300)
    finally:
        os.kill(pid, signal.SIGCONT)
        end_process(process.pid, grace_seconds=2)

    finished = own_target.finished()
    seqs = {
        int(decode_events(value_of(m))["seq"][0]) for m in read_all(own_target, own_target.topic)
    }
    named = {seq for first, last in finished.unknown_seqs or [] for seq in range(first, last + 1)}
    assert code == 3
    assert len(named) == finished.unknown > 0
    assert finished.acked == finished.sent - finished.unknown
    assert set(range(finished.sent)) - named <= seqs
    assert "unknown" in finished.reason


def _await_reports(
    target: ProducerTarget, is_enough: Callable[[ProducerProgress], bool] = lambda _: True
) -> None:
    """Wait until the stream has begun and such a progress has been reported."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        # Just after a topic's creation the broker may not lead its partition yet.
        with contextlib.suppress(KafkaException):
            if any(isinstance(r, ProducerProgress) and is_enough(r) for r in target.records()):
                return
        time.sleep(0.2)
    pytest.fail(f"no such progress within {WAIT_SECONDS:g} s")


def _await_elapsed(seconds: float) -> None:
    """Let an outage last as long as the test says."""
    time.sleep(seconds)
