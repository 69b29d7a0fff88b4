"""Summarise a run's rows where they are decoded: what a clean run needs, it needs once.

20 million rows become some thousand: digests by block, runs of work, counts by time, order
statistics of the time lag. Only what a summary makes suspicious is read again, row by row.

In a block that holds the same messages on both sides the counts are equal, and so are the sums of
the 64-bit hashes (by chance: odds of 1 in 2^64).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from lagbench_spark.rows import Ints, Rules
from lagbench_spark.transforms.blocks import NUMBER_BITS
from lagbench_spark.transforms.work_runs import Starts, runs_of

IDENTITY = ("partition", "offset", "seq", "entity_id")
BIN_NS, POD_BIN_NS = 100_000_000, 1_000_000_000
SUMMARY_ROWS = "content binary"
_MOST_RANKS = 10_000
_NAMED_STRANGERS = 5
_CHUNK = 1 << 20
_SAMPLED_EVERY = 101
_MOST_LAG_NS = 9e18  # of a garbled planned instant: no lag

Tables = dict[str, pa.Table]
# How rows of one key are joined: of one batch, of one task and of all tasks alike.
_JOINED: dict[str, tuple[Sequence[str], Sequence[tuple[str, str]]]] = {
    "logged": (("partition", "block"), (("count", "sum"), ("hash", "sum"), ("first", "min"))),
    "seqs": (("block",), (("count", "sum"), ("hash", "sum"))),
    "offered": (("partition", "at"), (("count", "sum"),)),
    "processed": (("partition", "block"), (("count", "sum"), ("hash", "sum"))),
    "done": (("partition", "pod", "at"), (("count", "sum"),)),
    "by_kill": (("pod", "kills", "at"), (("count", "sum"), ("last_at", "max"))),
    "aside": (("pod", "kind"), (("count", "sum"),)),
    "odd": (("kind",), (("count", "sum"),)),
}


class Summary(Protocol):
    """Hold what is known of the batches seen so far."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch of decoded rows in."""

    def tables(self) -> Tables:
        """Return the summary's tables by name."""


@dataclass
class EventsSummary:
    """Tables of rows of ``schemas.EVENTS``: logged, seqs, offered, strangers (their places)."""

    rules: Rules
    parts: dict[str, list[pa.Table]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch in."""
        strangers = pc.is_valid(self.rules.stranger(batch))
        if pc.any(strangers).as_py():
            _add(self.parts, "strangers", batch.select(["partition", "offset"]).filter(strangers))
        own = self.rules.own_events(batch)
        if not own.num_rows:
            return
        columns = {name: own.column(name).to_numpy() for name in IDENTITY}
        logged = {
            "partition": own.column("partition"),
            "block": columns["offset"] >> NUMBER_BITS,
            "hash": hashed(*columns.values()),
            "first": own.column("offset"),
        }
        _add_counted(self.parts, "logged", logged)
        seqs = {"block": columns["seq"] >> NUMBER_BITS, "hash": hashed(columns["seq"])}
        _add_counted(self.parts, "seqs", seqs)
        # Of a stream of unknown start the record's timestamp is the planned instant (to 1 ms).
        at = pc.coalesce(own.column("planned_at"), own.column("logged_at"))
        offered = {"partition": own.column("partition"), "at": bin_of(at.to_numpy(), BIN_NS)}
        _add_counted(self.parts, "offered", offered)

    def tables(self) -> Tables:
        """Return the tables."""
        return _joined(self.parts)


@dataclass
class WorkSummary:
    """Tables of rows of ``schemas.PROCESSED``.

    processed, done, by_kill, runs, costs (a sample, from started to done), lags (order statistics
    with weights), odd and aside (counts by kind), unreadable (the first records of the ledger that
    are none).

    ``kills`` are those of each pod, ``sample_end`` is the planned instant after which a message is
    of the tail; None: there is no tail.
    """

    rules: Rules
    starts: Starts
    kills: Mapping[str, Sequence[int]]
    sample_end: int | None
    parts: dict[str, list[pa.Table]] = field(default_factory=dict)
    lags: list[tuple[Ints, npt.NDArray[np.bool_], Ints]] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch in."""
        is_foreign = pc.is_valid(batch.column("foreign"))
        work = self.rules.work(batch)
        rows = work.own
        odd = {
            "foreign": batch.num_rows - work.rows.num_rows,
            "outside": work.outside,
            "failed": rows.num_rows - rows.column("failed_attempts").null_count,
        }
        if odd["foreign"]:
            columns = {
                "partition": batch.column("ledger_partition"),
                "offset": batch.column("ledger_offset"),
                "detail": batch.column("foreign"),
            }
            found = pa.table(columns).filter(is_foreign)
            _add(self.parts, "unreadable", _first(found))
        _add(self.parts, "odd", pa.table({"kind": [*odd], "count": [*odd.values()]}))
        for kind, mask in (("beyond", work.is_beyond), ("stranger", work.is_on_stranger)):
            if mask.any():
                pods = work.rows.column("pod").filter(pa.array(mask))
                kinds = pa.repeat(pa.scalar(kind), len(pods))
                _add_counted(self.parts, "aside", {"pod": pods, "kind": kinds})
        if rows.num_rows:
            self._add_own(rows)

    def _add_own(self, rows: pa.RecordBatch) -> None:
        columns = {name: rows.column(name).to_numpy() for name in IDENTITY}
        processed = {
            "partition": rows.column("partition"),
            "block": columns["offset"] >> NUMBER_BITS,
            "hash": hashed(*columns.values()),
        }
        _add_counted(self.parts, "processed", processed)
        done_at, pods = rows.column("done_at").to_numpy(), rows.column("pod")
        done = {
            "partition": rows.column("partition"),
            "pod": pods,
            "at": bin_of(done_at, BIN_NS),
        }
        _add_counted(self.parts, "done", done)
        costs = done_at - rows.column("started_at").to_numpy()
        is_sampled = columns["offset"] % _SAMPLED_EVERY == 0  # whatever the batch
        _add(self.parts, "costs", pa.table({"cost": costs[is_sampled]}))
        by_kill = {
            "pod": pods,
            "kills": self._kills_before(pods, done_at),
            "at": bin_of(done_at, POD_BIN_NS),
            "last_at": rows.column("done_at"),
        }
        _add_counted(self.parts, "by_kill", by_kill)
        _add(self.parts, "runs", runs_of(rows, self.starts))
        is_planned = pc.is_valid(rows.column("planned_at")).to_numpy(zero_copy_only=False)
        planned_at = pc.fill_null(rows.column("planned_at"), 0).to_numpy()
        is_planned &= np.abs(done_at.astype(float) - planned_at) < _MOST_LAG_NS
        planned_at, done_at = planned_at[is_planned], done_at[is_planned]
        is_after = np.zeros(len(done_at), bool)
        if self.sample_end is not None:
            is_after = planned_at >= self.sample_end
        self.lags.append((bin_of(done_at, POD_BIN_NS), is_after, done_at - planned_at))

    def _kills_before(self, pods: pa.Array, done_at: Ints) -> Ints:
        """Return how often a row's pod had been killed before the row was done."""
        before = np.zeros(len(done_at), np.int64)
        for pod, instants in self.kills.items():
            is_pod = pc.equal(pods, pod).to_numpy(zero_copy_only=False)
            before[is_pod] = np.searchsorted(np.array(instants), done_at[is_pod], side="left")
        return before

    def tables(self) -> Tables:
        """Return the tables."""
        return _joined(self.parts) | ({"lags": _ranks(self.lags)} if self.lags else {})


def summarised(rows: DataFrame, summary: Summary) -> Tables:
    """Return the summary of a landed table."""
    found = rows.mapInArrow(partial(_summarise, summary), SUMMARY_ROWS).collect()
    return united(row["content"] for row in found)


def _summarise(summary: Summary, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        summary.add(batch)
    yield pa.RecordBatch.from_pydict({"content": [packed(summary)]})


def packed(summary: Summary) -> bytes:
    """Return what one task sends to the driver."""
    return pickle.dumps(summary.tables())


def united(contents: Iterable[bytes]) -> Tables:
    """Return the tables of all tasks as one summary."""
    parts: dict[str, list[pa.Table]] = {}
    for content in contents:
        for name, table in pickle.loads(content).items():  # noqa: S301 - of the job's executors
            _add(parts, name, table)
    return _joined(parts)


def expected_seqs(produced: int) -> pa.Table:
    """Return the table ``seqs`` of a log that holds 0 to ``produced`` - 1, each once."""
    parts: dict[str, list[pa.Table]] = {}
    for first in range(0, produced, _CHUNK):
        seqs = np.arange(first, min(first + _CHUNK, produced))
        _add_counted(parts, "seqs", {"block": seqs >> NUMBER_BITS, "hash": hashed(seqs)})
    return _joined(parts).get("seqs", pa.table({name: pa.array([], pa.int64()) for name in _SEQS}))


_SEQS = ("block", "count", "hash")


def bin_of(instant: Ints, width_ns: int) -> Ints:
    """Return the start of the bin that holds an instant."""
    return instant - instant % width_ns


def hashed(*columns: npt.NDArray[np.signedinteger]) -> Ints:
    """Return a 64-bit hash of each row (the finalizer of SplitMix64 over its numbers)."""
    found = np.full(len(columns[0]), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        found ^= column.astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            found ^= found >> np.uint64(shift)
            found *= np.uint64(factor)
        found ^= found >> np.uint64(31)
    return found.view(np.int64)


def _add(parts: dict[str, list[pa.Table]], name: str, rows: pa.Table | pa.RecordBatch) -> None:
    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    parts.setdefault(name, []).append(table)


def _add_counted(
    parts: dict[str, list[pa.Table]], name: str, columns: Mapping[str, pa.Array | Ints]
) -> None:
    size = len(next(iter(columns.values())))
    table = pa.table({**columns, "count": np.ones(size, np.int64)})
    _add(parts, name, _reduced(name, table))


def _reduced(name: str, table: pa.Table) -> pa.Table:
    """Return one row for each key of the table."""
    keys, aggregates = _JOINED[name]
    found = table.group_by([*keys]).aggregate([*aggregates])
    return found.rename_columns([*keys, *(column for column, _ in aggregates)])


def _joined(parts: Mapping[str, list[pa.Table]]) -> Tables:
    tables = {name: pa.concat_tables(found).combine_chunks() for name, found in parts.items()}
    for name, table in tables.items():
        if name in _JOINED:
            tables[name] = _reduced(name, table)
        elif name == "unreadable":
            tables[name] = _first(table)
    return tables


def _first(table: pa.Table) -> pa.Table:
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).slice(
        0, _NAMED_STRANGERS
    )


def _ranks(lags: Sequence[tuple[Ints, npt.NDArray[np.bool_], Ints]]) -> pa.Table:
    """Return at, is_after, lag, weight: of each group 10,000 order statistics, or all its values.

    A rank among the united groups is therefore off by at most one in 10,000.
    """
    at, is_after, lag = (np.concatenate(part) for part in zip(*lags, strict=True))
    order = np.lexsort((lag, is_after, at))
    at, is_after, lag = at[order], is_after[order], lag[order]
    weight = np.ones(len(lag))
    chosen = np.ones(len(lag), bool)
    is_new = np.ones(len(lag), bool)
    is_new[1:] = (np.diff(at) != 0) | (is_after[1:] != is_after[:-1])
    firsts = np.flatnonzero(is_new)
    sizes = np.diff([*firsts, len(lag)])
    for first, size in zip(firsts[sizes > _MOST_RANKS], sizes[sizes > _MOST_RANKS], strict=True):
        chosen[first : first + size] = False
        places = first - 1 + np.arange(1, _MOST_RANKS + 1) * size // _MOST_RANKS
        chosen[places] = True
        weight[places] = size / _MOST_RANKS
    columns = {"at": at, "is_after": is_after, "lag": lag, "weight": weight}
    return pa.table({name: values[chosen] for name, values in columns.items()})
