"""Land a run: its three topics, up to the fence, as Parquet tables in the run folder."""

from __future__ import annotations

from dataclasses import dataclass

from bench_spark import schemas
from bench_spark.fence import Fence
from bench_spark.kafka_log import read_topic
from bench_spark.run_folder import RunFolder
from bench_spark.transforms.event_rows import decode_events
from bench_spark.transforms.ledger_rows import decode_ledger
from bench_spark.transforms.telemetry_rows import decode_telemetry, stream_started_at


@dataclass(frozen=True, slots=True)
class Topics:
    """Where the run's three topics are."""

    bootstrap_servers: str
    events: str
    processed: str
    telemetry: str


def land(folder: RunFolder, topics: Topics, fence: Fence) -> None:
    """Write the tables events, processed and telemetry; a repetition replaces them.

    Telemetry comes first: it knows when the stream started.
    """
    session, servers = folder.session, topics.bootstrap_servers
    records = read_topic(
        session, bootstrap_servers=servers, topic=topics.telemetry, end_offsets=fence.telemetry
    )
    folder.write_table("telemetry", schemas.TELEMETRY, decode_telemetry(records))
    started_at = fence.stream_started_at
    if started_at is None:
        started_at = stream_started_at(folder.read_table("telemetry", schemas.TELEMETRY))
    records = read_topic(
        session, bootstrap_servers=servers, topic=topics.events, end_offsets=fence.events
    )
    events = decode_events(records, started_at)
    folder.write_table("events", schemas.EVENTS, events, rows=fence.messages)
    records = read_topic(
        session, bootstrap_servers=servers, topic=topics.processed, end_offsets=fence.processed
    )
    processed = decode_ledger(records, started_at)
    folder.write_table("processed", schemas.PROCESSED, processed, rows=fence.messages)
