"""Read the tables ``events`` and ``processed``, a row per message, into bins by partition.

They are read in batches with numpy: 20 million rows take seconds, and 16 bytes of memory each.

Both have the stamps of the producer and of the pods. They are moved to the recorder's clock, as
Spark does for the table ``timeline``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures import Ints
from lagbench.core.measures.evidence import BIN_NS, RateSeries
from lagbench.core.measures.rebalance import (
    NEVER,
    POD_BINS,
    Counts,
    PartitionWork,
    PodRates,
    contradiction,
    delayed,
    waiting_after,
)
from lagbench.errors import NotReady

_BATCH_ROWS = 1 << 20
_SAMPLED_EVERY = 101


@dataclass(frozen=True, slots=True)
class Shifts:
    """The known leads of the clocks, subtracted from the stamps of the producer and of each pod."""

    planned_ns: int = 0
    by_pod: Mapping[str, int] = field(default_factory=dict)

    def of(self, pods: pa.Array) -> Ints:
        """Return the shift of each row's pod."""
        names, codes = _by_name(pods)
        by_code = np.array([self.by_pod.get(name, 0) for name in names], dtype=np.int64)
        return by_code[codes]


NO_SHIFTS = Shifts()


def read_partition_work(
    folder: RunFolder,
    rate: RateSeries,
    partitions: int,
    committed: Mapping[int, int | None],
    shifts: Shifts = NO_SHIFTS,
) -> PartitionWork | None:
    """Return waiting and finished messages by partition; None: a table is missing.

    ``committed``: the last committed offset by partition. ``shifts``: of a single clock, none.

    :raises NotReady: a table cannot be read.
    """
    parts = {name: sorted(folder.table(name).glob("*.parquet")) for name in ("events", "processed")}
    if not all(parts.values()) or not rate.processed.size:
        return None
    try:
        return _read(parts, rate, partitions, committed, shifts)
    except (OSError, pa.ArrowException) as broken:
        raise NotReady(f"run {folder.reference}: its messages cannot be read: {broken}") from broken


def _read(
    parts: Mapping[str, list[Path]],
    rate: RateSeries,
    partitions: int,
    committed: Mapping[int, int | None],
    shifts: Shifts,
) -> PartitionWork:
    events, processed = parts["events"], parts["processed"]
    places = _Places.of(events, partitions)
    planned = np.full(places.size, NEVER, dtype=np.int64)
    for batch in _batches(events, ["partition", "offset", "planned_at", "logged_at"]):
        at = batch.column("planned_at").to_numpy(zero_copy_only=False) - shifts.planned_ns
        if batch.column("planned_at").null_count:
            logged = batch.column("logged_at").to_numpy(zero_copy_only=False)
            at = np.where(np.isnan(at), logged, at)
        place, is_known = places.find(batch)
        planned[place] = at[is_known]
    done = np.full(places.size, NEVER, dtype=np.int64)
    pods = _Pods(-(-rate.processed.size // POD_BINS))
    costs: list[Ints] = []
    columns = ["partition", "offset", "started_at", "done_at", "pod"]
    for rows in _batches(processed, columns):
        batch = rows.filter(pc.is_valid(rows.column("partition")))  # the others are of no message
        stamped_at = batch.column("done_at").to_numpy()
        done_at = stamped_at - shifts.of(batch.column("pod")) if shifts.by_pod else stamped_at
        place, is_known = places.find(batch)
        np.minimum.at(done, place, done_at[is_known])
        pods.add(batch.column("pod"), (done_at - rate.started_at) // (POD_BINS * BIN_NS))
        costs.append((stamped_at - batch.column("started_at").to_numpy())[::_SAMPLED_EVERY])
    done[planned == NEVER] = NEVER  # of no message in the log
    shape = (places.partitions, rate.processed.size)
    is_lost = (done == NEVER) & (planned != NEVER) & places.below(committed)
    offered = _binned(places, planned, planned != NEVER, rate, shape)
    first_done = _binned(places, done, done != NEVER, rate, shape)
    lost = _binned(places, planned, is_lost, rate, shape)
    arrivals = delayed(offered - lost).astype(np.int32)
    sampled = np.concatenate(costs) if costs else np.zeros(0, dtype=np.int64)
    return PartitionWork(
        arrivals=arrivals,
        waiting=waiting_after(arrivals, first_done),
        done=first_done,
        lost=lost.sum(axis=0, dtype=np.int64),
        pod_rates=pods.rates(),
        message_seconds=float(np.median(sampled)) / 1e9 if sampled.size else None,
        doubt=contradiction(
            rate, offered.sum(axis=0, dtype=np.int64), first_done.sum(axis=0, dtype=np.int64)
        ),
    )


def _binned(
    places: _Places, instants: Ints, chosen: np.ndarray, rate: RateSeries, shape: tuple[int, int]
) -> Counts:
    """Count the ``chosen`` messages by partition and bin; those outside count at the edge."""
    counts = np.zeros(shape, dtype=np.int32)
    for partition in range(places.partitions):
        own = slice(int(places.starts[partition]), int(places.starts[partition + 1]))
        bins = (instants[own][chosen[own]] - rate.started_at) // BIN_NS
        bins = np.clip(bins, 0, shape[1] - 1)
        counts[partition] = np.bincount(bins, minlength=shape[1])
    return counts


class _Places:
    """The place of a message in an array over all offsets of all partitions."""

    def __init__(self, first: Ints, last: Ints) -> None:
        self.partitions = first.size
        self.first = first
        self.starts = np.concatenate([[0], np.cumsum(np.maximum(last - first + 1, 0))])
        self.size = int(self.starts[-1])

    @classmethod
    def of(cls, events: list[Path], partitions: int) -> _Places:
        first = np.full(partitions, NEVER, dtype=np.int64)
        last = np.full(partitions, -1, dtype=np.int64)
        for batch in _batches(events, ["partition", "offset"]):
            partition = batch.column("partition").to_numpy()
            offset = batch.column("offset").to_numpy()
            most = int(partition.max(initial=-1)) + 1 - first.size
            if most > 0:
                first = np.concatenate([first, np.full(most, NEVER, dtype=np.int64)])
                last = np.concatenate([last, np.full(most, -1, dtype=np.int64)])
            np.minimum.at(first, partition, offset)
            np.maximum.at(last, partition, offset)
        return cls(np.where(last < 0, 0, first), last)

    def find(self, batch: pa.RecordBatch) -> tuple[Ints, np.ndarray]:
        """Return the places of the rows that lie in the log, and a mask of these rows."""
        partition = batch.column("partition").to_numpy().astype(np.int64)
        offset = batch.column("offset").to_numpy()
        is_known = (partition >= 0) & (partition < self.partitions)
        inside = np.where(is_known, partition, 0)
        place = self.starts[inside] + offset - self.first[inside]
        is_known &= (offset >= self.first[inside]) & (place < self.starts[inside + 1])
        return place[is_known], is_known

    def below(self, committed: Mapping[int, int | None]) -> np.ndarray:
        """Return which places lie below the partition's committed offset."""
        below = np.zeros(self.size, dtype=bool)
        for partition in range(self.partitions):
            start, end = int(self.starts[partition]), int(self.starts[partition + 1])
            count = (committed.get(partition) or 0) - int(self.first[partition])
            below[start : min(max(start + count, start), end)] = True
        return below


class _Pods:
    """Count the messages that each pod finished in each second."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.counts: dict[str, Ints] = {}

    def add(self, pods: pa.Array, second: Ints) -> None:
        names, codes = _by_name(pods)
        inside = (second >= 0) & (second < self.seconds)
        flat = codes[inside].astype(np.int64) * self.seconds + second[inside]
        found = np.bincount(flat, minlength=len(names) * self.seconds)
        for name, row in zip(names, found.reshape(len(names), self.seconds), strict=True):
            self.counts[name] = self.counts.get(name, np.zeros(self.seconds, np.int64)) + row

    def rates(self) -> PodRates:
        names = tuple(sorted(self.counts))
        rows = [self.counts[name] for name in names]
        empty = np.zeros((0, self.seconds), dtype=np.int32)
        return PodRates(names, np.stack(rows).astype(np.int32) if rows else empty)


def _by_name(pods: pa.Array) -> tuple[list[str], Ints]:
    """Return the names of pods, and the place of each row's pod among them."""
    encoded = pods if isinstance(pods, pa.DictionaryArray) else pods.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def _batches(parts: list[Path], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        table = pq.ParquetFile(part, read_dictionary=["pod"] if "pod" in columns else None)
        yield from table.iter_batches(batch_size=_BATCH_ROWS, columns=columns)
