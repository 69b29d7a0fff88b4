"""Strangers in every topic of a run, its topics gone, and still an accounting."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from tests.integration.landed_run import send_run
from tests.unit.spark_jobs.synthetic_run import SyntheticRun, clean_run

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.adapters.runs.topic_copies import keep_evidence
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker
from lagbench.embedded.local_accounting import account_here

pytestmark = pytest.mark.slow
NAMES = RunNames("strangers-20261122-120000-abcd")
TOPICS = dict(zip(("events", "processed", "telemetry"), NAMES.topics, strict=True))
EVENT_STRANGERS = [b"a line of a console", None, b"\xff" * 256] * 20


@pytest.fixture(scope="module")
def accounted(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SyntheticRun, Path]:
    """Provide a run with strangers that was copied, lost its topics, and was accounted for."""
    folder = RunFolder.create(NAMES.run_id, tmp_path_factory.mktemp("runs"))
    run = clean_run()
    ends = send_run(broker, run, TOPICS)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    producer = Producer(settings)
    for place, value in enumerate(EVENT_STRANGERS):
        producer.produce(TOPICS["events"], value, partition=place % run.partitions)
        ends["events"][place % run.partitions] += 1
    for value in (b"", b"no arrow", None):
        producer.produce(TOPICS["processed"], value, partition=2)
        ends["processed"][2] += 1
    for value in (b"no json", b'{"kind": "pod_seen", "at": 5, "source": "x"}'):
        producer.produce(TOPICS["telemetry"], value, partition=0)
        ends["telemetry"][0] += 1
    assert producer.flush(120) == 0
    committed = dict(ends["events"])
    folder.write_json(folder.fence, {**ends, "committed": committed, "fenced_at": 0})
    folder.write_json(folder.manifest, {"fidelity": "processes"})
    assert keep_evidence(lambda: settings, folder) == list(NAMES.topics)
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.delete_topics(NAMES.topics)
    account_here(folder, lambda _: None)
    return run, folder.path


def test_copies_are_what_the_log_held(accounted: tuple[SyntheticRun, Path]) -> None:
    """Every message of the run is in the landed table, beside the sixty strangers' places."""
    run, folder = accounted

    events = pq.read_table(folder / "tables" / "events").sort_by("seq")

    assert events.num_rows == 3_060
    seqs = [seq for seq in events.column("seq").to_pylist() if seq is not None and seq >= 0]
    assert seqs == run.messages["seq"].tolist()
    assert events.column("seq").null_count == 40  # a console's lines and tombstones


def test_strangers_are_counted_in_their_own_classes(accounted: tuple[SyntheticRun, Path]) -> None:
    """Sixty, three and two; every message of the run is processed once and none is lost."""
    _, folder = accounted

    content = json.loads((folder / "accounting.json").read_text())

    assert (content["foreign"], content["in_log"]) == (60, 3_060)
    assert content["foreign_ledger_records"] == 3
    assert content["foreign_telemetry_records"] == 2
    assert content["processed_distinct"] == content["processed_records"] == 3_000
    assert content["lost"] == content["not_yet_consumed"] == content["not_in_log"] == 0
    assert {record["topic"] for record in content["strangers"]} == set(TOPICS)


def test_the_timeline_is_of_the_run_alone(accounted: tuple[SyntheticRun, Path]) -> None:
    """No bin of another century, and no stranger among what was offered."""
    _, folder = accounted

    timeline = pq.read_table(folder / "tables" / "timeline")

    assert sum(timeline.column("offered").to_pylist()) == 3_000
    assert timeline.num_rows < 200
