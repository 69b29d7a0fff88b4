"""Read the events and processings of one partition: which are the run's, and when they happened.

Consumers skip a record without an identity, and process a stranger with one like any other record:
no field of a stranger is trusted. Stamps are brought to the recorder's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lagbench.core.ownership.run_facts import RunFacts
from lagbench_spark.run_folder import Fence

_PRODUCER_ID = 0  # a run has one producer

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Names = npt.NDArray[np.object_]
Rows = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Rules:
    """Say what a message of the run can be, who owned it when, and how far clocks are ahead.

    ``window``: a stamp outside of it is moved to its edge. ``sample_end``: the planned instant
    after which a message is of the tail; None: there is no tail.
    """

    fence: Fence
    facts: RunFacts
    window: tuple[int, int] | None
    sample_end: int | None = None

    @property
    def produced(self) -> int:
        """The seqs that the producer handed over.

        Without its final report as many as the log has: a hole among them is noticed.
        """
        return self.fence.messages if self.facts.produced is None else self.facts.produced

    @property
    def seqs(self) -> int:
        """More than any seq of the run."""
        return max(self.produced, self.facts.plan.seqs or 0)

    @property
    def producer_shift(self) -> int:
        """The lead of the producer's clock."""
        return self.facts.clocks.shifts.get(self.facts.producer or "", 0)


def read_events(rules: Rules, table: pa.Table) -> tuple[Rows, Rows]:
    """Return the run's own events by offset, and offset and detail of the strangers."""
    table = table.sort_by("offset").combine_chunks()
    rows = {name: _numbers(table, name) for name in ("offset", "seq", "entity_id", "logged_at")}
    planned_at = _numbers(table, "planned_at") - rules.producer_shift
    # Of a stream of unknown start the record's timestamp is the planned instant (to 1 ms).
    rows["planned_at"] = np.where(_is_given(table, "planned_at"), planned_at, rows["logged_at"])
    plan = rules.facts.plan
    offset_ns = _numbers(table, "planned_offset_ns")
    detail = np.full(len(table), None, object)
    detail[_outside(offset_ns, plan.offset_ns)] = "planned outside the stream"
    last_seq = None if plan.seqs is None else plan.seqs - 1
    detail[_outside(rows["seq"], last_seq)] = "of a seq beyond those produced"
    detail[_numbers(table, "producer_id") != _PRODUCER_ID] = "of another producer"
    for place in np.flatnonzero(~_is_given(table, "seq")):
        size = table["size_bytes"][place].as_py()
        size = "no" if size is None else size
        detail[place] = f"a value of {size} bytes, without the run's identity"
    is_own = np.array([text is None for text in detail], bool)
    strangers = {"offset": rows["offset"][~is_own], "detail": detail[~is_own]}
    return picked(rows, is_own), strangers


@dataclass(frozen=True, slots=True)
class Work:
    """Processings: columns ``pod`` and ``member`` of ``rows`` have places in the names."""

    rows: Rows
    pods: Names
    members: Names
    outside: int = 0
    """The number that were stamped outside the run."""

    def only(self, chosen: Mask | Ints) -> Work:
        """Return some of the processings."""
        return replace(self, rows=picked(self.rows, chosen))

    @property
    def pod(self) -> Names:
        """The name of each processing's pod."""
        return self.pods[self.rows["pod"]]

    def __len__(self) -> int:
        """Return the number of processings."""
        return len(self.rows["offset"])


def read_work(rules: Rules, table: pa.Table) -> Work:
    """Return the processings in rows of ``schemas.PROCESSED``, without those that are foreign."""
    table = table.filter(pc.is_null(table["foreign"])).combine_chunks()
    names = ("partition", "offset", "seq", "entity_id", "ledger_partition", "ledger_offset")
    rows = {name: _numbers(table, name) for name in (*names, "started_at", "done_at")}
    rows["pod"], pods = _codes(table, "pod")
    rows["member"], members = _codes(table, "member_id")
    rows["attempts"] = _numbers(table, "failed_attempts")
    rows["planned_at"] = _numbers(table, "planned_at") - rules.producer_shift
    rows["is_planned"] = _is_given(table, "planned_at")
    shifts = rules.facts.clocks.shifts
    shift = np.array([shifts.get(pod, 0) for pod in pods], np.int64)[rows["pod"]]
    is_outside = np.zeros(len(table), bool)
    for name in ("started_at", "done_at"):
        stamp = rows[name] - shift
        rows[name] = stamp if rules.window is None else np.clip(stamp, *rules.window)
        is_outside |= rows[name] != stamp
    return Work(rows, pods, members, int(is_outside.sum()))


def picked(rows: Rows, chosen: Mask | Ints) -> Rows:
    """Return some of the rows; all of them without a copy."""
    if chosen.dtype == bool and chosen.all():
        return rows
    return {name: values[chosen] for name, values in rows.items()}


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column of numbers; 0 where there is none."""
    return pc.fill_null(table[name], 0).to_numpy()


def _is_given(table: pa.Table, name: str) -> Mask:
    given: Mask = pc.is_valid(table[name]).to_numpy()
    return given


def _codes(table: pa.Table, name: str) -> tuple[npt.NDArray[np.int32], Names]:
    """Return the place of each name in the names."""
    coded = pc.dictionary_encode(table[name]).unify_dictionaries().combine_chunks()
    names = np.array([*coded.dictionary.to_pylist(), ""], object)[:-1]
    return coded.indices.to_numpy(), names


def _outside(number: Ints, most: int | None) -> Mask:
    """Return which numbers are below 0 or above ``most``; a missing one is 0 here."""
    is_outside: Mask = number < 0
    return is_outside if most is None else is_outside | (number > most)
