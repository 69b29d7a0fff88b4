"""A clean run made by hand: every message processed once, one handover per third partition.

Mutations change a copy; what the accounting must say about it is known by construction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import (
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsRevoked,
    Record,
    StreamFinished,
    StreamStarted,
)
from lagbench.shared_with_spark.event import EVENT_BYTES, EVENT_DTYPE, event_values, record_keys

STREAM_STARTED_AT = 1_790_000_000_000_000_000

MILLISECOND = 1_000_000

_WAIT_NS, _WORK_NS = 2 * MILLISECOND, 2 * MILLISECOND

_BATCH_ROWS = 100

MESSAGE_DTYPE = np.dtype(
    [
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("seq", "<i8"),
        ("entity_id", "<i8"),
        ("planned_offset_ns", "<i8"),
    ]
)

WORK_DTYPE = np.dtype(
    [
        *MESSAGE_DTYPE.descr,
        ("started_at", "<i8"),
        ("done_at", "<i8"),
        ("pod", "U16"),
        ("failed_attempts", "<i4"),
    ]
)

Rows = npt.NDArray[np.void]


@dataclass
class SyntheticRun:
    """``messages`` is the log in order of seq; ``work`` the ledger, per partition in order.

    A message of a negative seq has another size: nothing but its place is in the tables.
    """

    partitions: int
    messages: Rows
    work: Rows
    telemetry: list[Record]
    committed: dict[int, int | None] = field(default_factory=dict)
    fidelity: str | None = None  # of the manifest; None: there is none
    member: str | None = None  # whose name all work has in the ledger; None: a member of each pod

    def end_offsets(self) -> dict[int, int]:
        """Return the next free offset of each partition."""
        counts = np.bincount(self.messages["partition"], minlength=self.partitions)
        return {partition: int(count) for partition, count in enumerate(counts)}


def clean_run(
    count: int = 3_000, partitions: int = 6, seconds: float = 10.0, seed: int = 1
) -> SyntheticRun:
    """Return a run in which pod-c takes over every third partition at half time."""
    generator = np.random.default_rng(seed)
    messages = np.zeros(count, MESSAGE_DTYPE)
    messages["seq"] = np.arange(count)
    messages["entity_id"] = generator.integers(0, 5_000, count)
    messages["partition"] = messages["entity_id"] % partitions
    messages["planned_offset_ns"] = np.arange(count) * int(seconds * 1e9 / count)
    by_partition = np.argsort(messages["partition"], kind="stable")
    counts = np.bincount(messages["partition"], minlength=partitions)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    messages["offset"][by_partition] = np.arange(count) - starts
    handover_at = STREAM_STARTED_AT + int(seconds * 1e9 / 2)
    run = SyntheticRun(partitions, messages, _clean_work(messages[by_partition], handover_at), [])
    run.telemetry = _clean_telemetry(run, seconds, seed, handover_at)
    run.committed = dict(run.end_offsets())
    return run


def pod_of(partition: int) -> str:
    """Return the first owner of a partition."""
    return "pod-a" if partition % 2 == 0 else "pod-b"


def is_handed_over(partition: int) -> bool:
    """Return whether pod-c takes the partition over at half time."""
    return partition % 3 == 2


def _clean_work(messages: Rows, handover_at: int) -> Rows:
    work = np.zeros(len(messages), WORK_DTYPE)
    for name in MESSAGE_DTYPE.names or ():
        work[name] = messages[name]
    planned_at = STREAM_STARTED_AT + work["planned_offset_ns"]
    is_second_half = planned_at >= handover_at
    is_moved = is_second_half & (work["partition"] % 3 == 2)
    work["pod"] = np.where(
        is_moved, "pod-c", np.where(work["partition"] % 2 == 0, "pod-a", "pod-b")
    )
    earliest = np.where(is_moved, handover_at + 12 * MILLISECOND, 0)
    work["started_at"] = np.maximum(planned_at + _WAIT_NS, earliest)
    work["done_at"] = work["started_at"] + _WORK_NS
    return work


def _clean_telemetry(
    run: SyntheticRun, seconds: float, seed: int, handover_at: int
) -> list[Record]:
    count = len(run.messages)
    before = STREAM_STARTED_AT - 1_000 * MILLISECOND
    after = STREAM_STARTED_AT + int(seconds * 1e9)
    records: list[Record] = [
        StreamStarted(
            at=STREAM_STARTED_AT,
            source="producer",
            stream_started_at=STREAM_STARTED_AT,
            seed=seed,
            profile="steady",
            planned_total=count,
            planned_seconds=seconds,
            partitions=run.partitions,
        ),
        StreamFinished(
            at=after,
            source="producer",
            planned=count,
            sent=count,
            acked=count,
            failed=0,
            unknown=0,
            lateness_p50_ms=0.1,
            lateness_p99_ms=0.5,
            lateness_max_ms=1.0,
            fell_behind=False,
            reason="completed",
            stream_sha256="",
        ),
    ]
    for pod in ("pod-a", "pod-b"):
        owned = [p for p in range(run.partitions) if pod_of(p) == pod]
        kept = [p for p in owned if not is_handed_over(p)]
        given = [p for p in owned if is_handed_over(p)]
        records.append(assigned(before, pod, owned, owned))
        records.append(revoked(handover_at + 5 * MILLISECOND, pod, given, kept))
    moved = [p for p in range(run.partitions) if is_handed_over(p)]
    records.append(assigned(handover_at + 10 * MILLISECOND, "pod-c", moved, moved))
    for partition, end in run.end_offsets().items():
        owner = "pod-c" if is_handed_over(partition) else pod_of(partition)
        records.append(
            OffsetsCommitted(
                at=after + 100 * MILLISECOND,
                source=owner,
                member_id=f"member-{owner}",
                offsets={str(partition): end},
                cause="interval",
            )
        )
    return records


def assigned(
    at: int, pod: str, partitions: list[int], owned: list[int], *, number: int = 1
) -> PartitionsAssigned:
    """Return the record of an assignment, the pod's rebalance of that number."""
    return PartitionsAssigned(
        at=at,
        source=pod,
        member_id=f"member-{pod}",
        partitions=partitions,
        owned=owned,
        is_incremental=True,
        rebalance=number,
    )


def revoked(
    at: int, pod: str, partitions: list[int], owned: list[int], *, number: int = 2
) -> PartitionsRevoked:
    """Return the record of a revocation, the pod's rebalance of that number."""
    return PartitionsRevoked(
        at=at,
        source=pod,
        member_id=f"member-{pod}",
        partitions=partitions,
        owned=owned,
        is_lost=False,
        in_flight=0,
        finish_seconds=0.0,
        rebalance=number,
    )


def log_records(run: SyntheticRun) -> list[tuple[int, bytes, bytes, int]]:
    """Return (partition, key, value, timestamp in ms) of the events topic, in order of offset."""
    ordered = run.messages[np.lexsort((run.messages["offset"], run.messages["partition"]))]
    events = np.zeros(len(ordered), EVENT_DTYPE)
    for name in ("seq", "entity_id", "planned_offset_ns"):
        events[name] = ordered[name]
    timestamps = (STREAM_STARTED_AT + ordered["planned_offset_ns"]) // MILLISECOND
    return list(
        zip(
            ordered["partition"].tolist(),
            record_keys(events),
            event_values(events),
            timestamps.tolist(),
            strict=True,
        )
    )


def ledger_records(run: SyntheticRun) -> list[tuple[int, bytes]]:
    """Return (partition, value) of the ledger: up to 100 rows of one partition and pod each."""
    records = []
    work = run.work
    is_new = np.ones(len(work), bool)
    is_new[1:] = (work["partition"][1:] != work["partition"][:-1]) | (
        work["pod"][1:] != work["pod"][:-1]
    )
    starts = np.flatnonzero(is_new)
    for start, end in zip(starts, [*starts[1:], len(work)], strict=True):
        for first in range(start, end, _BATCH_ROWS):
            rows = work[first : min(first + _BATCH_ROWS, end)]
            records.append((int(rows["partition"][0]), ledger_value(rows)))
    return records


def ledger_value(rows: Rows) -> bytes:
    """Return rows of one partition and pod as the value of one ledger record."""
    unsigned = {"seq", "entity_id"}
    names = ("offset", "seq", "entity_id", "planned_offset_ns", "started_at", "done_at")
    columns = [
        pa.array(np.ascontiguousarray(rows[n]), pa.uint64() if n in unsigned else pa.int64())
        for n in names
    ]
    pod = str(rows["pod"][0])
    schema = pa.schema(
        [(n, c.type) for n, c in zip(names, columns, strict=True)],
        metadata={
            "version": "1",
            "pod": pod,
            "partition": str(int(rows["partition"][0])),
            "member_id": f"member-{pod}",
        },
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return sink.getvalue().to_pybytes()


_LEDGER_PARTITIONS = 6

_ROWS_A_RECORD = 100


def write_run(run: SyntheticRun, folder: Path, end_offsets: dict[int, int] | None = None) -> None:
    """Write events, processed, telemetry and fence.json; ``end_offsets`` by default the log's."""
    tables = {
        "events": events_of(run),
        "processed": processed_of(run),
        "telemetry": _telemetry(run),
    }
    for name, table in tables.items():
        place = folder / "tables" / name
        place.mkdir(parents=True)
        pq.write_table(table, place / "part-0.parquet")
    ends = run.end_offsets() if end_offsets is None else end_offsets
    fence = {"events": ends, "processed": {}, "telemetry": {}, "committed": run.committed}
    (folder / "fence.json").write_text(json.dumps(fence))
    if run.fidelity is not None:
        (folder / "manifest.json").write_text(json.dumps({"fidelity": run.fidelity}))


def events_of(run: SyntheticRun) -> pa.Table:
    """Return the table events."""
    rows = run.messages[np.lexsort((run.messages["offset"], run.messages["partition"]))]
    is_other = rows["seq"] < 0
    planned_at = rows["planned_offset_ns"] + STREAM_STARTED_AT
    logged_at = np.where(is_other, STREAM_STARTED_AT, planned_at)
    return pa.table(
        {
            "partition": np.ascontiguousarray(rows["partition"]),
            "offset": np.ascontiguousarray(rows["offset"]),
            **{
                name: pa.array(np.ascontiguousarray(rows[name]), mask=is_other)
                for name in ("seq", "entity_id", "planned_offset_ns")
            },
            "planned_at": pa.array(planned_at, mask=is_other),
            "logged_at": logged_at,
            "producer_id": pa.array(np.zeros(len(rows), np.int32), mask=is_other),
            "size_bytes": np.where(is_other, 9, EVENT_BYTES).astype(np.int32),
        }
    )


def processed_of(run: SyntheticRun) -> pa.Table:
    """Return the table processed."""
    rows = run.work
    pods = rows["pod"].tolist()
    return pa.table(
        {
            "partition": np.ascontiguousarray(rows["partition"]),
            "offset": np.ascontiguousarray(rows["offset"]),
            "seq": np.ascontiguousarray(rows["seq"]),
            "entity_id": np.ascontiguousarray(rows["entity_id"]),
            "planned_at": rows["planned_offset_ns"] + STREAM_STARTED_AT,
            "started_at": np.ascontiguousarray(rows["started_at"]),
            "done_at": np.ascontiguousarray(rows["done_at"]),
            "pod": pods,
            "member_id": [run.member or f"member-{pod}" for pod in pods],
            "ledger_partition": (rows["partition"] % _LEDGER_PARTITIONS).astype(np.int32),
            "ledger_offset": np.arange(len(rows)) // _ROWS_A_RECORD,
            "failed_attempts": pa.array(
                np.ascontiguousarray(rows["failed_attempts"]), mask=rows["failed_attempts"] == 0
            ),
            "foreign": pa.nulls(len(rows), pa.string()),
        }
    )


def _telemetry(run: SyntheticRun) -> pa.Table:
    texts = [encode_record(record).decode() for record in run.telemetry]
    decoded = [json.loads(text) for text in texts]
    return pa.table(
        {
            "at": [record["at"] for record in decoded],
            "source": [record["source"] for record in decoded],
            "kind": [record["kind"] for record in decoded],
            "record": texts,
        }
    )


SECONDS = 10.0

GROWS_NS = 5_000_000_000

FIRST, GROWN = 6, 12

NEW_POD = "pod-d"


def grown_run() -> SyntheticRun:
    """Return a clean run that goes from 6 to 12 partitions; pod-d does all work on the new ones."""
    run = clean_run(partitions=FIRST, seconds=SECONDS)
    for rows in (run.messages, run.work):
        is_later = rows["planned_offset_ns"] >= GROWS_NS
        rows["partition"] = np.where(is_later, rows["entity_id"] % GROWN, rows["partition"])
    offset_of = _number(run.messages)
    run.work["offset"] = offset_of[run.work["seq"]]
    is_new = run.work["partition"] >= FIRST
    run.work["pod"] = np.where(is_new, NEW_POD, run.work["pod"])
    # The new owner takes partitions over at half time, but is as fast as any with new ones.
    planned_at = STREAM_STARTED_AT + run.work["planned_offset_ns"]
    start = np.where(is_new, planned_at + 2 * MILLISECOND, run.work["started_at"])
    run.work["done_at"] += start - run.work["started_at"]
    run.work["started_at"] = start
    run.partitions = GROWN
    run.committed = dict(run.end_offsets())
    run.telemetry = [
        msgspec.structs.replace(record, partitions=FIRST)
        if isinstance(record, StreamStarted)
        else record
        for record in run.telemetry
        if not isinstance(record, OffsetsCommitted)
    ]
    new = list(range(FIRST, GROWN))
    run.telemetry.append(assigned(STREAM_STARTED_AT + GROWS_NS - MILLISECOND, NEW_POD, new, new))
    return run


def hold_up(run: SyntheticRun, partition: int, *, from_ns: int, by_ns: int) -> None:
    """Let everything that is planned from an instant on in one partition be done later."""
    is_held = (run.work["partition"] == partition) & (run.work["planned_offset_ns"] >= from_ns)
    for name in ("started_at", "done_at"):
        run.work[name] += np.where(is_held, by_ns, 0)


def moved(run: SyntheticRun) -> dict[int, list[int]]:
    """Return the partitions of each key that has messages in two, in order of seq."""
    found: dict[int, list[int]] = {}
    for row in np.sort(run.messages, order="seq"):
        stays = found.setdefault(int(row["entity_id"]), [])
        if int(row["partition"]) not in stays:
            stays.append(int(row["partition"]))
    return {key: stays for key, stays in found.items() if len(stays) > 1}


def overtaken_seqs(run: SyntheticRun) -> set[int]:
    """Return the seqs begun after a later message of their key in another partition had begun."""
    keys = moved(run)
    found = set()
    for key in keys:
        rows = run.work[run.work["entity_id"] == key]
        for row in rows:
            beside = rows[(rows["seq"] > row["seq"]) & (rows["partition"] != row["partition"])]
            if (beside["started_at"] < row["started_at"]).any():
                found.add(int(row["seq"]))
    return found


def _number(messages: Rows) -> np.ndarray:
    """Write the offsets anew, in order of seq; return them by seq."""
    for partition in np.unique(messages["partition"]):
        mine = messages["partition"] == partition
        messages["offset"][mine] = np.arange(int(mine.sum()))
    return np.asarray(messages["offset"][np.argsort(messages["seq"])])
