"""A user's own messages on a real broker: sent as they are, known by a header."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.integration.producer_target import (
    PARTITIONS,
    ProducerTarget,
    make_target,
    read_all,
    value_of,
)

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.topic_copies import keep_evidence
from lagbench.core.scenario.event_stream import partition_of_key
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.programs.consumer.consumer_pod import chunk_by_headers
from lagbench.shared_with_spark.event import decode_identities, identity_of

pytestmark = pytest.mark.slow
LOAD = ["--rate=500", "--duration-seconds=2", "--run-id=payload-run"]
EVENTS = 1000
ORDERS = [{"order": f"o-{number}", "note": "é" * number} for number in range(20)]


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Provide a file of JSON lines, of 20 sizes."""
    file = tmp_path / "orders.jsonl"
    lines = [json.dumps(order, ensure_ascii=False) for order in ORDERS]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_samples_arrive_as_they_are_with_their_own_keys(
    target: ProducerTarget, samples: Path
) -> None:
    """Each value is a line of the file, keyed and placed by its field, and each seq is there."""
    done = target.run(*LOAD, f"--payload-file={samples}", "--payload-key-field=order")

    assert done.returncode == 0, done.stderr
    messages = read_all(target, target.topic)
    assert {value_of(m) for m in messages} == set(samples.read_bytes().split(b"\n"))
    seqs = []
    for message in messages:
        order = json.loads(value_of(message))["order"].encode()
        assert message.key() == order
        assert message.partition() == partition_of_key(order, PARTITIONS)
        chunk = chunk_by_headers([message], 1, "payload-run")
        assert chunk is not None
        seqs.append(int(chunk.events["seq"][0]))
    assert sorted(seqs) == list(range(EVENTS))


def test_failed_messages_are_known_by_their_header(
    broker: Broker, kafka_admin: KafkaAdmin, tmp_path: Path
) -> None:
    """A sample that the topic does not take fails, and its seq is reported."""
    target = make_target(kafka_admin, broker.bootstrap_servers, {"max.message.bytes": "2000"})
    file = tmp_path / "large.jsonl"
    file.write_text(json.dumps("".join(chr(200 + n % 7919) for n in range(40_000))))

    done = target.run("--rate=10", "--duration-seconds=1", "--run-id=r", f"--payload-file={file}")

    assert done.returncode != 0
    finished = target.finished()
    assert finished.failed == finished.planned == 10
    assert [tuple(part) for part in finished.failed_seqs or ()] == [(0, 9)]


def test_a_copy_of_the_topic_keeps_the_headers(
    broker: Broker, kafka_admin: KafkaAdmin, samples: Path, tmp_path: Path
) -> None:
    """What `lagbench account` reads instead of Kafka has the identity of each message."""
    names = RunNames("payload-20261122-120000-abcd")
    target = ProducerTarget(broker.bootstrap_servers, names.events_topic)
    topics = [*names.topics, target.telemetry_topic]
    kafka_admin.create_topics([TopicSpec(topic, 1, {}) for topic in topics])
    load = ["--rate=50", "--duration-seconds=1", f"--run-id={names.run_id}"]
    done = target.run(*load, f"--payload-file={samples}")
    assert done.returncode == 0, done.stderr
    folder = RunFolder.create(names.run_id, tmp_path)
    ends = {"events": {"0": 50}, "processed": {"0": 0}, "telemetry": {"0": 0}}
    folder.write_json(folder.fence, {**ends, "committed": {"0": 50}})

    settings = {"bootstrap.servers": broker.bootstrap_servers}
    assert keep_evidence(lambda: settings, folder) == list(names.topics)

    rows = pq.read_table(folder.copy("events")).to_pylist()
    found = [
        identity_of([(h["key"], h["value"]) for h in row["headers"]], names.run_id) for row in rows
    ]
    seqs = decode_identities(b"".join(identity for identity in found if identity))["seq"]
    assert seqs.tolist() == list(range(50))
