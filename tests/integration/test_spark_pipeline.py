"""The pipeline as the Dag submits it, on a real broker."""

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

from lagbench.adapters.processes import end_process, start_tied
from lagbench.core.telemetry import LagSample, ReadGap, ReplicaSample, encode_record
from lagbench.embedded.broker import Broker
from lagbench.embedded.spark_packages import spark_environment, spark_jars

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

_SPARK_JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"
_REPEATED = 15
_LEDGER_PARTITIONS = 6
# Seen 15 s on two idle cores; other work on the machine multiplies it.
_SUBMIT_LIMIT_SECONDS = 240


def _samples() -> list[Any]:
    """Return two readings with a failed one between them."""
    second = 1_000 * MILLISECOND
    return [
        LagSample(at=STREAM_STARTED_AT, source="recorder", partitions=[(0, 10, None), (1, 9, 4)]),
        ReadGap(at=STREAM_STARTED_AT + second, source="recorder", what="lag", reason="timeout"),
        LagSample(at=STREAM_STARTED_AT + 2 * second, source="recorder", partitions=[(0, 20, 20)]),
        ReplicaSample(at=STREAM_STARTED_AT, source="recorder", spec=3, current=2, ready=1),
    ]


def _send(broker: Broker, run: SyntheticRun, topics: dict[str, str]) -> dict[str, dict[int, int]]:
    """Write a run to three topics; return their end offsets."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    sizes = {"events": run.partitions, "processed": _LEDGER_PARTITIONS, "telemetry": 1}
    # The synthetic stream lies in the past: retention by time would delete it while it is read.
    specs = [
        NewTopic(topics[kind], size, 1, config={"retention.ms": "-1"})
        for kind, size in sizes.items()
    ]
    for created in admin.create_topics(specs).values():
        created.result(timeout=30)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
    )
    ends = {kind: dict.fromkeys(range(size), 0) for kind, size in sizes.items()}
    for partition, key, value, timestamp in log_records(run):
        producer.produce(topics["events"], value, key, partition, timestamp=timestamp)
        ends["events"][partition] += 1
    for partition, value in ledger_records(run):
        place = partition % _LEDGER_PARTITIONS
        producer.produce(topics["processed"], value, partition.to_bytes(4, "big"), place)
        ends["processed"][place] += 1
    for record in [*run.telemetry, *_samples()]:
        producer.produce(topics["telemetry"], encode_record(record), record.source)
        ends["telemetry"][0] += 1
    assert producer.flush(60) == 0
    return ends


def _submit(job: str, broker: Broker, folder: Path, topics: dict[str, str]) -> None:
    """Submit an entry script as the Dag's operator does and wait for its end."""
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit")]
    command += ["--master", "local[2]", "--driver-memory", "1g"]
    command += ["--driver-java-options", "-XX:TieredStopAtLevel=1"]
    command += ["--jars", ",".join(str(path) for path in spark_jars())]
    command += [str(_SPARK_JOBS / f"{job}.py"), "--run-folder", str(folder)]
    if job in {"land", "pipeline"}:
        command += ["--bootstrap-servers", broker.bootstrap_servers]
        command += [part for kind in topics for part in (f"--{kind}-topic", topics[kind])]
    log_path = folder / f"{job}.log"
    environment = {**os.environ, **spark_environment(), "SPARK_LOCAL_DIRS": str(folder)}
    with log_path.open("wb") as log:
        # Outside the repository and without PYTHONPATH: the script finds its own package.
        process = start_tied(command, log=log, env=environment, cwd=folder)
        try:
            code = process.wait(timeout=_SUBMIT_LIMIT_SECONDS)
        finally:
            end_process(process.pid, grace_seconds=2)
    assert code == 0, log_path.read_text()[-4000:]


def _table(folder: Path, name: str) -> pa.Table:
    return pq.read_table(folder / "tables" / name)


@pytest.fixture(scope="module")
def landed(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> tuple[SyntheticRun, Path]:
    """Provide a run, sent to the broker, landed, and then taken through the whole pipeline."""
    folder = tmp_path_factory.mktemp("landed")
    run = clean_run()
    mutations.kill_at_the_handover(run, "pod-a", rows=_REPEATED)
    topics = {kind: f"lagbench.landed.{kind}" for kind in ("events", "processed", "telemetry")}
    ends = _send(broker, run, topics)
    # One record more than the fence: what was produced after the cut is not of the run.
    late = Producer({"bootstrap.servers": broker.bootstrap_servers})
    late.produce(topics["events"], b"after the fence", partition=0)
    assert late.flush(30) == 0
    fence = {**ends, "committed": run.committed, "fenced_at": 0}
    (folder / "fence.json").write_text(json.dumps(fence))
    _submit("land", broker, folder, topics)
    _submit("pipeline", broker, folder, topics)  # lands once more: a retry replaces the tables
    return run, folder


def test_events_are_what_was_produced(landed: tuple[SyntheticRun, Path]) -> None:
    """Every message below the fence is in the table once, with its planned instant."""
    run, folder = landed

    events = _table(folder, "events").sort_by("seq")

    for name in ("partition", "offset", "seq", "entity_id", "planned_offset_ns"):
        assert events.column(name).to_pylist() == run.messages[name].tolist()
    planned_at = (run.messages["planned_offset_ns"] + STREAM_STARTED_AT).tolist()
    assert events.column("planned_at").to_pylist() == planned_at
    logged_at = [at // MILLISECOND * MILLISECOND for at in planned_at]
    assert events.column("logged_at").to_pylist() == logged_at


def test_ledger_is_what_the_pods_wrote(landed: tuple[SyntheticRun, Path]) -> None:
    """Every processing is in the table, with pod and instants."""
    run, folder = landed
    names = ["partition", "offset", "seq", "entity_id", "started_at", "done_at", "pod"]

    processed = _table(folder, "processed").select(names)

    rows = sorted(zip(*(column.to_pylist() for column in processed.columns), strict=True))
    assert rows == sorted(zip(*(run.work[name].tolist() for name in names), strict=True))


def test_telemetry_is_kept_word_for_word(landed: tuple[SyntheticRun, Path]) -> None:
    """Every record is in the table as it was sent, with its kind pulled out."""
    run, folder = landed

    telemetry = _table(folder, "telemetry")

    sent = [encode_record(record).decode() for record in [*run.telemetry, *_samples()]]
    assert sorted(telemetry.column("record").to_pylist()) == sorted(sent)
    kinds = [json.loads(text)["kind"] for text in telemetry.column("record").to_pylist()]
    assert telemetry.column("kind").to_pylist() == kinds


def test_accounting_finds_the_kill_and_nothing_else(landed: tuple[SyntheticRun, Path]) -> None:
    """What the killed pod had not committed is counted as repeated because of the kill."""
    _, folder = landed

    content = json.loads((folder / "accounting.json").read_text())

    assert content["in_log"] == content["processed_distinct"] == 3_000
    assert content["processed_records"] == 3_000 + _REPEATED
    assert content["duplicated"] == content["duplicated_messages"] == _REPEATED
    assert content["by_cause"] == {"killed": _REPEATED}
    other = ("lost", "reordered", "zombie", "not_yet_consumed", "produced_twice", "not_in_log")
    assert [content[kind] for kind in other] == [0] * len(other)
    assert _table(folder, "bad_messages").num_rows == _REPEATED


def test_timeline_has_every_bin_and_every_message(landed: tuple[SyntheticRun, Path]) -> None:
    """Bins follow each other without a hole, and their sums are the totals."""
    _, folder = landed

    timeline = _table(folder, "timeline")

    at = timeline.column("at").to_pylist()
    assert at == list(range(at[0], at[-1] + 1, 100 * MILLISECOND))
    sums = {name: sum(timeline.column(name).to_pylist()) for name in timeline.column_names[1:]}
    assert sums == {"offered": 3_000, "processed": 3_000, "processed_again": _REPEATED}
    by_pod = _table(folder, "timeline_by_pod")
    assert sum(by_pod.column("processed").to_pylist()) == 3_000 + _REPEATED
    latency = _table(folder, "latency")
    assert sum(latency.column("count").to_pylist()) == 3_000 + _REPEATED
    assert latency.column("p50_seconds")[0].as_py() == pytest.approx(0.004)


def test_handovers_are_gaps_between_two_pods(landed: tuple[SyntheticRun, Path]) -> None:
    """Each handed-over partition has one gap, from its last message to the heir's first."""
    _, folder = landed

    gaps = _table(folder, "partition_gaps").to_pylist()

    assert [(g["partition"], g["from_pod"], g["to_pod"]) for g in gaps] == [
        (2, "pod-a", "pod-c"),
        (5, "pod-b", "pod-c"),
    ]
    assert all(0 < gap["gap_seconds"] < 0.05 for gap in gaps)


def test_failed_readings_stay_gaps(landed: tuple[SyntheticRun, Path]) -> None:
    """A reading that failed has no row; a partition without a commit has no lag."""
    _, folder = landed
    later = STREAM_STARTED_AT + 2_000 * MILLISECOND

    lag = [tuple(row.values()) for row in _table(folder, "lag").to_pylist()]

    assert lag == [
        (STREAM_STARTED_AT, 0, 10, None, None),
        (STREAM_STARTED_AT, 1, 9, 4, 5),
        (later, 0, 20, 20, 0),
    ]
    assert _table(folder, "replicas").to_pylist() == [
        {"at": STREAM_STARTED_AT, "spec": 3, "current": 2, "ready": 1}
    ]
