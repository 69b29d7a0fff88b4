"""Land a run: its three topics, up to the fence, as Parquet tables in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from lagbench_spark import schemas
from lagbench_spark.decoded_tables import write_decoded
from lagbench_spark.fence import Fence
from lagbench_spark.kafka_log import read_topic
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.session import at_once, with_large_rows
from lagbench_spark.transforms.event_rows import decode_events, event_headers
from lagbench_spark.transforms.ledger_rows import decode_ledger
from lagbench_spark.transforms.output_rows import output_rows
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
    records = _records(folder.session, folder, topics, "telemetry", fence.telemetry)
    folder.write_table("telemetry", schemas.TELEMETRY, decode_telemetry(records))
    started_at, run_id = fence.stream_started_at, fence.identity_run_id
    if started_at is None:
        started_at = stream_started_at(folder.read_table("telemetry", schemas.TELEMETRY))
    events = event_headers(
        _records(folder.session, folder, topics, "events", fence.events, has_headers=bool(run_id)),
        run_id=run_id,
    )
    if fence.accounting == "output":
        _write_events(folder, events, fence, started_at)
        _write_output(folder, topics, fence)
        return
    ledger = _records(with_large_rows(folder.session), folder, topics, "processed", fence.processed)
    at_once(
        lambda: _write_events(folder, events, fence, started_at),
        partial(
            write_decoded,
            folder,
            "processed",
            schemas.PROCESSED,
            ledger.select("partition", "offset", "value"),
            partial(decode_ledger, stream_started_at=started_at),
            rows=fence.messages,
        ),
    )


def _write_events(
    folder: RunFolder, events: DataFrame, fence: Fence, started_at: int | None
) -> None:
    write_decoded(
        folder,
        "events",
        schemas.EVENTS,
        events,
        partial(decode_events, stream_started_at=started_at),
        rows=fence.messages,
    )


def _write_output(folder: RunFolder, topics: Topics | None, fence: Fence) -> None:
    """Write the table processed from the consumer's output, which names messages of the log."""
    records = _records(
        folder.session, folder, topics, "processed", fence.processed, has_headers=True
    )
    rows = output_rows(
        records, folder.read_table("events", schemas.EVENTS), run_id=fence.identity_run_id
    )
    folder.write_table("processed", schemas.PROCESSED, rows, rows=fence.messages)


def _records(
    session: SparkSession,
    folder: RunFolder,
    topics: Topics | None,
    kind: str,
    ends: Mapping[int, int],
    *,
    has_headers: bool = False,
) -> DataFrame:
    """Return the records of one topic below the fence, with the columns of Spark's source."""
    if topics is None:
        return session.read.parquet(folder.copy_path(kind))
    return read_topic(
        session,
        bootstrap_servers=topics.bootstrap_servers,
        topic=getattr(topics, kind),
        end_offsets=ends,
        has_headers=has_headers,
    )
