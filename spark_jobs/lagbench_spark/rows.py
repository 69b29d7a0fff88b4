"""Separate the run's own rows from strangers, and bring their stamps to the recorder's clock.

One rule for the summaries, which see every row, and for the joins, which see few. Consumers skip a
record without an identity, and process a stranger with one like any other record: no field of a
stranger is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lagbench.core.ownership import StreamPlan

_PRODUCER_ID = 0  # a run has one producer
STAMPS = ("started_at", "done_at")

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Step = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Stranger(NamedTuple):
    """The place of a record that does not belong to the run; None in tables of older runs."""

    topic: str  # events, processed or telemetry
    partition: int | None
    offset: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Rules:
    """Say what a row of the run can be, and how far the clocks of its pods are ahead.

    ``window``: the time in which the run can have worked, unix ns; a stamp outside of it is moved
    to its edge. ``ends``: the fence of the events topic. ``strangers``: offsets by partition.
    """

    plan: StreamPlan
    ends: Mapping[int, int]
    window: tuple[int, int] | None
    pod_shifts: Mapping[str, int] = field(default_factory=dict)
    producer_shift: int = 0
    strangers: Mapping[int, Ints] = field(default_factory=dict)

    def own_events(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of ``schemas.EVENTS`` that the run's stream can hold."""
        planned = _earlier(batch.column("planned_at"), self.producer_shift)
        return _with(batch, planned_at=planned).filter(pc.is_null(self.stranger(batch)))

    def foreign_events(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return partition, offset, size_bytes and detail of the rows that it cannot hold."""
        detail = self.stranger(batch)
        columns = [batch.column(name) for name in ("partition", "offset", "size_bytes")]
        every = pa.RecordBatch.from_arrays(
            [*columns, detail], names=["partition", "offset", "size_bytes", "detail"]
        )
        return every.filter(pc.is_valid(detail))

    def stranger(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the reason why a row is not an event of the run; null: it may be one."""
        seq, planned = batch.column("seq"), batch.column("planned_offset_ns")
        last_seq = None if self.plan.seqs is None else self.plan.seqs - 1
        nothing = pa.scalar(None, pa.string())
        reason = pc.if_else(_outside(planned, self.plan.offset_ns), _OUTSIDE, nothing)
        reason = pc.if_else(_outside(seq, last_seq), _BEYOND, reason)
        is_other = pc.fill_null(pc.not_equal(batch.column("producer_id"), _PRODUCER_ID), False)
        reason = pc.if_else(is_other, _OTHER_PRODUCER, reason)
        is_nameless = pc.is_null(seq)
        if not pc.any(is_nameless).as_py():
            return reason
        size = pc.fill_null(pc.cast(batch.column("size_bytes"), pa.string()), "no")
        text = pc.binary_join_element_wise(
            "a value of ", size, " bytes, without the run's identity", ""
        )
        return pc.if_else(is_nameless, text, reason)

    def work(self, batch: pa.RecordBatch) -> Work:
        """Return the processings of rows of ``schemas.PROCESSED``, each with its place."""
        is_record = pc.is_null(batch.column("foreign"))
        rows = batch.filter(is_record)
        moved = {name: rows.column(name) for name in (*STAMPS, "planned_at")}
        if self.pod_shifts:
            shifts = _by_pod(rows.column("pod"), self.pod_shifts)
            moved |= {name: pc.subtract(moved[name], shifts) for name in STAMPS}
            moved["planned_at"] = _earlier(moved["planned_at"], self.producer_shift)
        outside = 0
        if self.window is not None:
            stamps = [moved[name].to_numpy() for name in STAMPS]
            kept = [np.clip(stamp, *self.window) for stamp in stamps]
            outside = int(np.count_nonzero((stamps[0] != kept[0]) | (stamps[1] != kept[1])))
            moved |= {name: pa.array(stamp) for name, stamp in zip(STAMPS, kept, strict=True)}
        partition = rows.column("partition").to_numpy()
        offset = rows.column("offset").to_numpy()
        return Work(
            rows=_with(rows, **moved),
            is_beyond=~self._is_below(partition, offset),
            is_on_stranger=self._is_on_stranger(partition, offset),
            outside=outside,
        )

    def _is_below(self, partition: npt.NDArray[np.int32], offset: Ints) -> Mask:
        """Return whether a place is below the fence: no other can be of a message of the run."""
        ends = np.zeros(max(self.ends, default=-1) + 2, np.int64)
        for number, end in self.ends.items():
            ends[number] = end
        known = np.where((partition >= 0) & (partition < len(ends)), partition, -1)
        below: Mask = (offset >= 0) & (offset < ends[known])
        return below

    def _is_on_stranger(self, partition: npt.NDArray[np.int32], offset: Ints) -> Mask:
        found = np.zeros(len(offset), bool)
        for number, offsets in self.strangers.items():
            found |= (partition == number) & np.isin(offset, offsets)
        return found


@dataclass(frozen=True, slots=True)
class Work:
    """Processings with their stamps on the recorder's clock; ``outside``: stamped outside the run.

    Those ``is_beyond`` the fence or ``is_on_stranger`` are of no message of the run.
    """

    rows: pa.RecordBatch
    is_beyond: Mask
    is_on_stranger: Mask
    outside: int

    @property
    def is_own(self) -> Mask:
        """Return which are of a message that the run can have."""
        return ~self.is_beyond & ~self.is_on_stranger

    @property
    def own(self) -> pa.RecordBatch:
        """Return the processings of messages that the run can have."""
        return self.rows if self.is_own.all() else self.rows.filter(pa.array(self.is_own))


_OTHER_PRODUCER = pa.scalar("of another producer")
_BEYOND = pa.scalar("of a seq beyond those produced")
_OUTSIDE = pa.scalar("planned outside the stream")


def each(change: Callable[[pa.RecordBatch], pa.RecordBatch]) -> Step:
    """Return ``change`` as a step of ``mapInArrow``."""

    def step(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield change(batch)

    return step


def _outside(number: pa.Array, most: int | None) -> pa.Array:
    is_outside = pc.less(number, 0)
    if most is not None:
        is_outside = pc.or_(is_outside, pc.greater(number, most))
    return pc.fill_null(is_outside, False)


def _earlier(instant: pa.Array, shift: int) -> pa.Array:
    return pc.subtract(instant, shift) if shift else instant


def _by_pod(pods: pa.Array, shifts: Mapping[str, int]) -> pa.Array:
    encoded = pods.dictionary_encode()
    known = [shifts.get(pod, 0) for pod in encoded.dictionary.to_pylist()]
    return pa.array(known, pa.int64()).take(encoded.indices)


def _with(batch: pa.RecordBatch, **columns: pa.Array) -> pa.RecordBatch:
    """Return the batch with other values in these columns."""
    for name, values in columns.items():
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, batch.schema.field(place).with_nullable(True), values)
    return batch
