"""Change points over the history of one cell.

Where the machine or the versions change, the reason for another value is known: the history is cut
there into segments. Inside each segment every bounded measure is searched. All splits of one round
are one family for Holm's correction; those accepted are searched again on both sides. A change
whose means differ by no more than the measure's bound is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.history.e_divisive import FEWEST_POINTS, Split, best_split
from lagbench.core.compare.history.history_row import HistoryRow
from lagbench.core.compare.pairs import IDENTITY_COUNTS, holm
from lagbench.core.measures import NAMED, MeasureModel, Reals

ALPHA = 0.01
SUSPECTED_POINTS = 2
"""A change is suspected from this number of points after it on, and confirmed at 4."""
MOST_POINTS = 100
"""Of a longer segment only the newest points are searched."""


class Change(MeasureModel):
    """A measure changed between two runs, without a known reason."""

    measure: str
    status: Literal["suspected", "confirmed"]
    last_run_before: str
    first_run_after: str
    mean_before: float
    mean_after: float
    points_before: int
    points_after: int
    p: float  # with Holm's correction

    @property
    def text(self) -> str:
        """The change as a sentence."""
        of = NAMED[self.measure]
        side = "worse" if self.mean_after > self.mean_before else "better"
        return (
            f"{of.title} {side} since {self.first_run_after}: {of.text(self.mean_before)} -> "
            f"{of.text(self.mean_after)} (means of {self.points_before} and {self.points_after} "
            f"runs, p {self.p:.2g}): {self.status}"
        )


class Segment(MeasureModel):
    """Runs of a cell on one machine with one set of versions, oldest first."""

    run_ids: tuple[str, ...]
    began_because: tuple[str, ...]  # what changed before it; empty: the first segment
    changes: tuple[Change, ...]


class CellHistory(MeasureModel):
    """The history of one cell; ``left_out`` runs have no usable verdict."""

    cell: str
    name: str
    segments: tuple[Segment, ...]
    left_out: tuple[str, ...]

    @property
    def newest_changes(self) -> tuple[Change, ...]:
        """The changes of the newest segment: the older ones are history."""
        return self.segments[-1].changes if self.segments else ()


def cell_history(rows: Sequence[HistoryRow], bounds: Sequence[Bound] = BOUNDS) -> CellHistory:
    """Return the segments and the change points of one cell's runs (at least one).

    Undetermined and invalid runs are left out. Counts of messages by identity are not searched: one
    is a failure of its run.
    """
    ordered = sorted(rows, key=lambda row: (row.created_at, row.run_id))
    results = [row for row in ordered if row.is_result]
    searched = [bound for bound in bounds if bound.name not in IDENTITY_COUNTS]
    return CellHistory(
        cell=ordered[-1].cell or "",
        name=ordered[-1].cell_name,
        segments=tuple(
            Segment(
                run_ids=tuple(row.run_id for row in part),
                began_because=tuple(why),
                changes=tuple(_changes(part[-MOST_POINTS:], searched)),
            )
            for part, why in _segments(results)
        ),
        left_out=tuple(row.run_id for row in ordered if not row.is_result),
    )


def _segments(rows: Sequence[HistoryRow]) -> Iterator[tuple[list[HistoryRow], list[str]]]:
    if not rows:
        return
    part, why = [rows[0]], list[str]()
    for before, after in pairwise(rows):
        changed = before.environment.changes(after.environment)
        if changed:
            yield part, why
            part, why = [], changed
        part.append(after)
    yield part, why


@dataclass(frozen=True)
class _Stretch:
    """The runs of a segment that have a value of one measure, between two change points."""

    bound: Bound
    run_ids: Sequence[str]
    values: Reals
    is_newest: bool = True  # it ends with the segment, so a change may have begun with its end

    @property
    def fewest_after(self) -> int:
        return SUSPECTED_POINTS if self.is_newest else FEWEST_POINTS

    @classmethod
    def of(cls, bound: Bound, rows: Sequence[HistoryRow]) -> _Stretch:
        known = [(row.run_id, row.measures.get(bound.name)) for row in rows]
        found = [(run_id, value) for run_id, value in known if value is not None]
        values = np.array([value for _, value in found], dtype=np.float64)
        return cls(bound, [run_id for run_id, _ in found], values)

    @property
    def is_constant(self) -> bool:
        return bool(self.values.size == 0 or np.all(self.values == self.values[0]))

    def parts(self, at: int) -> tuple[_Stretch, _Stretch]:
        return (
            _Stretch(self.bound, self.run_ids[:at], self.values[:at], is_newest=False),
            _Stretch(self.bound, self.run_ids[at:], self.values[at:], self.is_newest),
        )

    def change(self, split: Split, p: float) -> Change:
        before, after = self.parts(split.at)
        return Change(
            measure=self.bound.name,
            status="confirmed" if after.values.size >= FEWEST_POINTS else "suspected",
            last_run_before=before.run_ids[-1],
            first_run_after=after.run_ids[0],
            mean_before=float(before.values.mean()),
            mean_after=float(after.values.mean()),
            points_before=before.values.size,
            points_after=after.values.size,
            p=p,
        )


def _changes(rows: Sequence[HistoryRow], bounds: Sequence[Bound]) -> Iterator[Change]:
    """Yield the changes of a segment that are larger than their bound."""
    waiting = [_Stretch.of(bound, rows) for bound in bounds]
    while waiting:
        accepted = list(_accepted(waiting))
        for stretch, split, p in accepted:
            change = stretch.change(split, p)
            if abs(change.mean_after - change.mean_before) > stretch.bound.width(
                change.mean_before
            ):
                yield change
        waiting = [part for stretch, split, _ in accepted for part in stretch.parts(split.at)]


def _accepted(stretches: Sequence[_Stretch]) -> Iterator[tuple[_Stretch, Split, float]]:
    """Yield the stretches with a change, the split and its p-value, of one family."""
    found = [
        (stretch, split)
        for stretch in stretches
        if not stretch.is_constant
        and (split := best_split(stretch.values, fewest_after=stretch.fewest_after))
    ]
    adjusted = holm([split.p for _, split in found])
    for (stretch, split), p in zip(found, adjusted, strict=True):
        if p <= ALPHA:
            yield stretch, split, p


def by_cell(rows: Sequence[HistoryRow]) -> Mapping[str, list[HistoryRow]]:
    """Return the rows of each cell; runs whose folder does not show their cell are left out."""
    found: dict[str, list[HistoryRow]] = {}
    for row in rows:
        if row.cell is not None:
            found.setdefault(row.cell, []).append(row)
    return found
