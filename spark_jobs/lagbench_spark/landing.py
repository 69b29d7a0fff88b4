"""Land a run: its three topics, up to the fence, as Parquet tables in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from lagbench_spark import schemas
from lagbench_spark.decoded_tables import write_decoded
from lagbench_spark.fence import Fence
from lagbench_spark.kafka_log import read_topic
from lagbench_spark.progress import begin
from lagbench_spark.run_folder import RunFolder
from lagbench_spark.session import with_large_rows
from lagbench_spark.summaries import summarised
from lagbench_spark.transforms.event_rows import decode_events, event_headers
from lagbench_spark.transforms.ledger_rows import decode_ledger
from lagbench_spark.transforms.output_rows import output_rows
from lagbench_spark.transforms.telemetry_rows import decode_telemetry, stream_started_at
from lagbench_spark.work import Work, read_work


@dataclass(frozen=True, slots=True)
class Topics:
    """The run's three topics and their servers."""

    bootstrap_servers: str
    events: str
    processed: str
    telemetry: str


def land(folder: RunFolder, topics: Topics | None, fence: Fence) -> Work:
    """Write the tables telemetry, events and processed; return the run with their summaries.

    A repetition replaces the tables. Telemetry comes first, because it has the stream's start and
    what the rows of the run can be.

    :param topics: None: read the run folder's copies of them.
    """
    begin(folder, "telemetry")
    records = _records(folder.session, folder, topics, "telemetry", fence.telemetry)
    folder.write_table("telemetry", schemas.TELEMETRY, decode_telemetry(records))
    work = read_work(folder, fence)
    started_at, run_id = fence.stream_started_at, fence.identity_run_id
    if started_at is None:
        started_at = stream_started_at(work.telemetry)
    begin(folder, "events")
    events = event_headers(
        _records(folder.session, folder, topics, "events", fence.events, has_headers=bool(run_id)),
        run_id=run_id,
    )
    logged = write_decoded(
        folder,
        "events",
        schemas.EVENTS,
        events,
        partial(decode_events, stream_started_at=started_at),
        rows=fence.messages,
        summary=work.events_summary(),
    )
    work = work.with_logged(logged)
    begin(folder, "processed")
    if fence.accounting == "output":
        _write_output(folder, topics, fence)
        return with_worked(work)
    ledger = _records(with_large_rows(folder.session), folder, topics, "processed", fence.processed)
    worked = write_decoded(
        folder,
        "processed",
        schemas.PROCESSED,
        ledger.select("partition", "offset", "value"),
        partial(decode_ledger, stream_started_at=started_at),
        rows=fence.messages,
        summary=work.work_summary(),
    )
    return replace(work, worked=worked)


def landed(folder: RunFolder, fence: Fence) -> Work:
    """Return a run whose tables have landed, with their summaries."""
    work = read_work(folder, fence)
    events = folder.read_table("events", schemas.EVENTS)
    return with_worked(work.with_logged(summarised(events, work.events_summary())))


def with_worked(work: Work) -> Work:
    """Return the run with the summary of its landed processings."""
    rows = work.folder.read_table("processed", schemas.PROCESSED)
    return replace(work, worked=summarised(rows, work.work_summary()))


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
