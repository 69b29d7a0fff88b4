"""A run sent to the broker and taken through the whole pipeline by ``local[2]``, once a session."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.unit.spark_jobs import mutations
from tests.unit.spark_jobs.synthetic_run import (
    MILLISECOND,
    STREAM_STARTED_AT,
    SyntheticRun,
    clean_run,
    ledger_records,
    log_records,
)

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.runs.run_folder import LANDED_TABLES
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_recorder import LagSample, ReadGap, ReplicaSample
from lagbench.embedded.broker import Broker
from lagbench.embedded.java import driver_options, find_java
from lagbench.embedded.spark_packages import SPARK_JOBS, spark_environment, spark_jars
from localkube.processes import end_process, start_tied

NAMES = RunNames("landed-run-20261121-120000-abcd")
REPEATED = 15
_LEDGER_PARTITIONS = 6
# Seen 15 s on two idle cores; other work on the machine multiplies it.
_SUBMIT_LIMIT_SECONDS = 600


def samples() -> list[Any]:
    """Return two readings with a failed one between them."""
    second = 1_000 * MILLISECOND
    return [
        LagSample(at=STREAM_STARTED_AT, source="recorder", partitions=[(0, 10, None), (1, 9, 4)]),
        ReadGap(at=STREAM_STARTED_AT + second, source="recorder", what="lag", reason="timeout"),
        LagSample(at=STREAM_STARTED_AT + 2 * second, source="recorder", partitions=[(0, 20, 20)]),
        ReplicaSample(at=STREAM_STARTED_AT, source="recorder", spec=3, current=2, ready=1),
    ]


def send_run(
    broker: Broker, run: SyntheticRun, topics: dict[str, str]
) -> dict[str, dict[int, int]]:
    """Write a run to three topics; return their end offsets."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    sizes = {"events": run.partitions, "processed": _LEDGER_PARTITIONS, "telemetry": 1}
    # The synthetic stream lies in the past: retention by time would delete it while it is read.
    specs = [
        NewTopic(topics[kind], size, 1, config={"retention.ms": "-1"})
        for kind, size in sizes.items()
    ]
    for created in admin.create_topics(specs).values():
        created.result(timeout=120)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 5,
    }
    producer = Producer(settings)
    ends = {kind: dict.fromkeys(range(size), 0) for kind, size in sizes.items()}
    for partition, key, value, timestamp in log_records(run):
        producer.produce(topics["events"], value, key, partition, timestamp=timestamp)
        ends["events"][partition] += 1
    ledger = Producer({**settings, "transactional.id": topics["processed"]})
    ledger.init_transactions(30)
    records = list(ledger_records(run))
    for is_kept in (False, True):  # what a transaction wrote and took back is nobody's work
        ledger.begin_transaction()
        for partition, value in records:
            place = partition % _LEDGER_PARTITIONS
            ledger.produce(topics["processed"], value, partition.to_bytes(4, "big"), place)
        if is_kept:
            ledger.commit_transaction(30)
        else:
            assert ledger.flush(180) == 0
            ledger.abort_transaction(30)
    with KafkaAdmin(broker.bootstrap_servers) as fenced:
        ends["processed"] = fenced.end_offsets(topics["processed"])
    for record in [*run.telemetry, *samples()]:
        producer.produce(topics["telemetry"], encode_record(record), record.source)
        ends["telemetry"][0] += 1
    assert producer.flush(180) == 0
    return ends


def _submit(broker: Broker, folder: Path, topics: dict[str, str]) -> None:
    """Submit the pipeline as the Dag's operator does and wait for its end."""
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--master", "local[2]", "--driver-memory", "1g"]
    command += ["--jars", ",".join(str(path) for path in spark_jars())]
    arguments = [str(SPARK_JOBS / "pipeline.py"), "--run-folder", str(folder)]
    arguments += ["--bootstrap-servers", broker.bootstrap_servers]
    arguments += [part for kind in topics for part in (f"--{kind}-topic", topics[kind])]
    log_path = folder / "pipeline.log"
    environment = {**os.environ, **spark_environment(), "SPARK_LOCAL_DIRS": str(folder)}
    quick = driver_options(find_java(), messages=0)
    with log_path.open("wb") as log, quick as options:
        command += ["--driver-java-options", options, *arguments]
        # Outside the repository and without PYTHONPATH: the script finds its own package.
        process = start_tied(command, log=log, env=environment, cwd=folder)
        try:
            code = process.wait(timeout=_SUBMIT_LIMIT_SECONDS)
        finally:
            end_process(process.pid, grace_seconds=2)
    assert code == 0, log_path.read_text()[-4000:]


def _leave_tables(folder: Path) -> None:
    """Leave what an earlier attempt had written: files with other rows than the run's."""
    for name in (*LANDED_TABLES, "bad_messages", "timeline"):
        table = folder / "tables" / name
        table.mkdir(parents=True)
        pq.write_table(pa.table({"partition": [99]}), table / "part-earlier.parquet")
        (table / "_SUCCESS").touch()


@pytest.fixture(scope="session")
def landed(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticRun, Path]:
    """Provide a run, sent to the broker and taken through the pipeline, in a second attempt."""
    folder = tmp_path_factory.mktemp("landed")
    run = clean_run()
    mutations.kill_at_the_handover(run, "pod-a", rows=REPEATED)
    topics = {
        "events": NAMES.events_topic,
        "processed": NAMES.processed_topic,
        "telemetry": NAMES.telemetry_topic,
    }
    ends = send_run(broker, run, topics)
    # One record more than the fence: what was produced after the cut is not of the run.
    late = Producer({"bootstrap.servers": broker.bootstrap_servers})
    late.produce(topics["events"], b"after the fence", partition=0)
    assert late.flush(120) == 0
    fence = {**ends, "committed": run.committed, "fenced_at": 0}
    (folder / "fence.json").write_text(json.dumps(fence))
    _leave_tables(folder)
    _submit(broker, folder, topics)  # a retry replaces the tables
    return run, folder
