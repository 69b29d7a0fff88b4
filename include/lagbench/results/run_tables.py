"""Read the tables of a run folder into the types of the core."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.accounting.accounting import BadMessage
from lagbench.core.measures.evidence.lag_readings import BIN_NS, LagSeries, RateSeries, lag_series
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.partition_work import POD_BINS, PartitionWork, PodRates, work_of_bins
from lagbench.core.measures.rate_dip import rate_series
from lagbench.core.measures.rebalance_episodes import Handover
from lagbench.core.measures.run_evidence import Ledger
from lagbench.core.telemetry.records import TelemetryRecord, decode_record
from lagbench.errors import NotReady

_FEWEST_SAMPLES = 6
_OFFSET_BITS = 44
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_LONGEST_RUN_NS = 4 * 86_400 * NANOSECONDS


def read_table(folder: RunFolder, name: str) -> pa.Table:
    """Return a table of the run; an empty one has its columns but no row.

    :raises NotReady: Spark has not written it, or it cannot be read.
    """
    path = folder.table(name)
    parts = sorted(path.glob("*.parquet"))
    if not parts:
        raise NotReady(
            f"run {folder.reference} has no table {name}; "
            "its Spark jobs have not run or did not finish"
        )
    try:  # not as a dataset: Spark's _SUCCESS is beside it
        return pa.concat_tables([pq.ParquetFile(part).read() for part in parts])
    except (OSError, pa.ArrowException) as broken:
        raise NotReady(f"run {folder.reference}: table {name} cannot be read: {broken}") from broken


def read_telemetry(folder: RunFolder) -> tuple[list[TelemetryRecord], int]:
    """Return the records by instant, and how many rows were not a known record of this run.

    A record that is days away from most others is left out: its instant would be the run's end.
    """
    records: list[TelemetryRecord] = []
    unknown = 0
    for text in read_table(folder, "telemetry").column("record").to_pylist():
        try:
            records.append(decode_record(text))
        except msgspec.DecodeError:  # ValidationError is a subclass
            unknown += 1
    records.sort(key=lambda record: record.at)
    middle_at = records[len(records) // 2].at if records else 0
    near = [record for record in records if abs(record.at - middle_at) <= _LONGEST_RUN_NS]
    return near, unknown + len(records) - len(near)


def read_lag(folder: RunFolder, *, first_partitions: int | None = None) -> LagSeries:
    """Return the lag over time; ``first_partitions`` existed at the stream's start."""
    table = read_table(folder, "lag")
    columns = {
        name: table.column(name).to_pylist()
        for name in ("at", "partition", "end_offset", "committed")
    }
    return lag_series(**columns, first_partitions=first_partitions)


def read_earliest_median(folder: RunFolder) -> float | None:
    """Return the lowest median time lag of any bin; None: there is no row."""
    if not any(folder.table("latency").glob("*.parquet")):
        return None
    medians = read_table(folder, "latency").column("p50_seconds").drop_null().to_pylist()
    return min(medians, default=None)


def read_commits(folder: RunFolder) -> list[tuple[int, int, int | None]]:
    """Return the readings of committed offsets: at, partition, offset (None: no commit)."""
    table = read_table(folder, "lag")
    columns = (table.column(name).to_pylist() for name in ("at", "partition", "committed"))
    return list(zip(*columns, strict=True))


def read_rate(folder: RunFolder, *, until_at: int | None = None) -> RateSeries:
    """Return offered and (first time) processed messages per 100 ms, up to ``until_at``."""
    table = read_table(folder, "timeline")
    at, offered, processed = (
        np.asarray(table.column(name).to_numpy(), dtype=np.int64)
        for name in ("at", "offered", "processed")
    )
    return rate_series(at, offered, processed, until_at=until_at)


def read_partition_work(
    folder: RunFolder, rate: RateSeries, partitions: int, *, message_seconds: float | None
) -> PartitionWork | None:
    """Return waiting and finished messages by partition, in the bins of ``rate``.

    None: the accounting of an older version, which has no table of them, or no bins.
    """
    size = rate.processed.size
    if not any(folder.table("timeline_by_partition").glob("*.parquet")) or not size:
        return None
    table = read_table(folder, "timeline_by_partition")
    partition = table.column("partition").to_numpy()
    bins = np.clip((table.column("at").to_numpy() - rate.started_at) // BIN_NS, 0, size - 1)
    shape = (max(partitions, int(partition.max(initial=-1)) + 1), size)
    offered, done, lost = (np.zeros(shape, np.int32) for _ in range(3))
    for counts, name in ((offered, "offered"), (done, "processed"), (lost, "lost")):
        np.add.at(counts, (partition, bins), table.column(name).to_numpy())
    return work_of_bins(
        offered,
        done,
        lost,
        pod_rates=_read_pod_rates(folder, rate),
        message_seconds=message_seconds,
    )


def _read_pod_rates(folder: RunFolder, rate: RateSeries) -> PodRates:
    table = read_table(folder, "timeline_by_pod")
    seconds = -(-rate.processed.size // POD_BINS)
    pods = tuple(sorted(set(table.column("pod").to_pylist())))
    rows = {pod: number for number, pod in enumerate(pods)}
    second = (table.column("at").to_numpy() - rate.started_at) // (POD_BINS * BIN_NS)
    pod = np.array([rows[name] for name in table.column("pod").to_pylist()], dtype=np.int64)
    inside = (second >= 0) & (second < seconds)
    done = np.zeros((len(pods), seconds), np.int32)
    counts = table.column("processed").to_numpy()
    np.add.at(done, (pod[inside], second[inside]), counts[inside])
    return PodRates(pods, done)


def read_handovers(folder: RunFolder) -> list[Handover]:
    """Return the handovers of partitions between pods."""
    rows = read_table(folder, "partition_gaps").to_pylist()
    return [Handover(int(r["partition"]), int(r["next_done_at"]), r["gap_seconds"]) for r in rows]


def read_bad_messages(folder: RunFolder) -> list[BadMessage]:
    """Return the bad messages."""
    rows = read_table(folder, "bad_messages").to_pylist()
    columns = ("partition", "pod", "other_pod", "cause_pod", "at", "seq")
    return [
        BadMessage(
            message_class=row["class"],
            cause=row["cause"] or "none",
            **{name: row[name] for name in columns},
        )
        for row in rows
    ]


def read_ledger(folder: RunFolder) -> Ledger | None:
    """Return which batches of the ledger have rows; None: the folder does not have its rows."""
    if not any(folder.table("processed").glob("*.parquet")):
        return None
    columns = ["ledger_partition", "ledger_offset", "partition", "offset"]
    parts = sorted(folder.table("processed").glob("*.parquet"))
    rows = pa.concat_tables([pq.ParquetFile(part).read(columns=columns) for part in parts])
    numbers = [rows.column(name).fill_null(0).to_numpy().astype(np.uint64) for name in columns]
    batch = numbers[0] << np.uint64(_OFFSET_BITS) | numbers[1]
    message = numbers[2] << np.uint64(_OFFSET_BITS) | numbers[3]
    # One number for both, by a multiplier that spreads the bits: 20 million rows in two seconds.
    distinct = np.unique(batch * _SPREAD ^ message).size
    partitions, counts = np.unique(np.unique(batch) >> np.uint64(_OFFSET_BITS), return_counts=True)
    batches = dict(zip(partitions.tolist(), counts.tolist(), strict=True))
    return Ledger(batches, rows.num_rows - distinct)


def read_clock_skews(folder: RunFolder) -> dict[str, float]:
    """Return by how many seconds each source's stamps are off the order of the telemetry's log.

    The recorder's own records, one second apart or less, say when the broker took those between.
    Of three parts of a source's time the most wrong one counts: a clock may drift.
    """
    table = read_table(folder, "telemetry")
    if "offset" not in table.column_names:
        return {}
    of = {name: table.column(name).to_pylist() for name in ("source", "kind", "offset", "at")}
    rows = sorted(
        (offset, at, source, kind)
        for source, kind, offset, at in zip(*of.values(), strict=True)
        if offset is not None
    )
    known = [(offset, at) for offset, at, _, kind in rows if kind == "lag_sample"]
    if len(known) < _FEWEST_SAMPLES:
        return {}
    offsets, instants = np.asarray(known, dtype=np.float64).T
    stamps: dict[str, list[float]] = {}
    for offset, at, source, _ in rows:
        if offsets[0] <= offset <= offsets[-1]:
            due_at = float(np.interp(offset, offsets, instants))
            stamps.setdefault(source, []).append((at - due_at) / NANOSECONDS)
    return {
        source: max((float(np.median(part)) for part in np.array_split(off, 3)), key=abs)
        for source, off in stamps.items()
        if len(off) >= _FEWEST_SAMPLES
    }
