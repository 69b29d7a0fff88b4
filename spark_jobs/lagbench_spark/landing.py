"""Land a run: its three topics, up to the fence, as Parquet tables in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame

from lagbench_spark import schemas
from lagbench_spark.fence import Fence
from lagbench_spark.kafka_log import read_topic
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.session import at_once
from lagbench_spark.transforms.event_rows import decode_events
from lagbench_spark.transforms.ledger_rows import decode_ledger
from lagbench_spark.transforms.telemetry_rows import decode_telemetry, stream_started_at


@dataclass(frozen=True, slots=True)
class Topics:
    """The run's three topics and their servers."""

    bootstrap_servers: str
    events: str
    processed: str
    telemetry: str


def land(folder: RunFolder, topics: Topics | None, fence: Fence) -> None:
    """Write the tables events, processed and telemetry; a repetition replaces them.

    Telemetry comes first, because it has the stream's start.

    :param topics: None: read the run folder's copies of them.
    """
    records = _records(folder, topics, "telemetry", fence.telemetry)
    folder.write_table("telemetry", schemas.TELEMETRY, decode_telemetry(records))
    started_at = fence.stream_started_at
    if started_at is None:
        started_at = stream_started_at(folder.read_table("telemetry", schemas.TELEMETRY))
    events = decode_events(_records(folder, topics, "events", fence.events), started_at)
    processed = decode_ledger(_records(folder, topics, "processed", fence.processed), started_at)
    at_once(
        partial(folder.write_table, "events", schemas.EVENTS, events, rows=fence.messages),
        partial(folder.write_table, "processed", schemas.PROCESSED, processed, rows=fence.messages),
    )


def _records(
    folder: RunFolder, topics: Topics | None, kind: str, ends: Mapping[int, int]
) -> DataFrame:
    """Return the records of one topic below the fence, with the columns of Spark's source."""
    if topics is None:
        return folder.session.read.parquet(folder.copy_path(kind))
    return read_topic(
        folder.session,
        bootstrap_servers=topics.bootstrap_servers,
        topic=getattr(topics, kind),
        end_offsets=ends,
    )
