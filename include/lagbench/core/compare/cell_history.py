"""The history of runs, and the change points of a cell.

Where the machine or the versions change, the reason for another value is known: the history is cut
there into segments. Inside each segment every bounded measure is searched by E-divisive (Matteson
and James 2014): the split with the largest energy distance, with the p-value of a permutation test
over all splits, so that the choice of the split is paid for. All splits of one round are one family
for Holm's correction; those accepted are searched again on both sides. A change whose means differ
by no more than the measure's bound is not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np
from pydantic import Field

from lagbench.core.compare.cell_identity import Environment
from lagbench.core.compare.compare import BOUNDS, Bound
from lagbench.core.compare.pair_statistics import holm
from lagbench.core.compare.pairs import IDENTITY_COUNTS
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import Ints, MeasureModel, Reals

ALPHA = 0.01

FEWEST_POINTS = 4
"""Fewer values before or after a split show no distribution."""

SUSPECTED_POINTS = 2
"""At the end of a series a change is suspected from this number of points after it on."""

MOST_POINTS = 100
"""Of a longer segment only the newest points are searched."""

PERMUTATIONS = 1999

_SEED = 20141


PREDICTED_PREFIX = "predicted."
"""In front of a measure's name: as the simulator predicted it, the median."""

LIMIT_PREFIX = "limit."
"""In front of a measure's name: the number of the SLO that judged it."""


class HistoryRow(MeasureModel):
    """A judged run: its cell, its verdict, its measures by name, and its manifest.

    ``None`` means that the run did not measure it, or that its folder does not show it.
    """

    run_id: str
    created_at: int  # unix nanoseconds
    scenario: str
    policy: str
    seed: int | None
    fidelity: str
    cell: str | None  # the cell's digest
    verdict: str
    is_invalid: bool  # it got another load than planned
    has_measured: bool | None = Field(
        default=None, description="the verdict's is_result; None: the line is of an earlier version"
    )
    warnings: int | None = None  # limits that only warn, and are broken or not known
    measures: Mapping[str, float | None]
    manifest: Mapping[str, str] = Field(
        default_factory=dict, description="each other value of the manifest by its dotted name"
    )

    def residual(self, name: str) -> float | None:
        """Return the measure less its prediction; None: one of them is not known."""
        measured, predicted = self.measures.get(name), self.measures.get(PREDICTED_PREFIX + name)
        return None if measured is None or predicted is None else measured - predicted

    @property
    def is_result(self) -> bool:
        """True if the run measured its cell (``Verdict.is_result``)."""
        if self.has_measured is None:
            return self.verdict in ("pass", "fail") and not self.is_invalid
        return self.has_measured

    @property
    def verdict_text(self) -> str:
        """The verdict with the number of its warnings, as a reader sees it."""
        plural, verdict = "s" * (self.warnings != 1), self.verdict.replace("_", " ")
        return f"{verdict}, {self.warnings} warning{plural}" if self.warnings else verdict

    @property
    def environment(self) -> Environment:
        """The machine and the versions of the run."""
        return Environment.of_manifest(self.manifest)

    @property
    def cell_name(self) -> str:
        """Scenario, policy and seed, as a reader names the cell."""
        return f"{self.scenario}/{self.policy}/{'–' if self.seed is None else self.seed}"


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


def by_cell(rows: Sequence[HistoryRow]) -> Mapping[str, list[HistoryRow]]:
    """Return the rows of each cell; runs whose folder does not show their cell are left out."""
    cells = dict.fromkeys(row.cell for row in rows if row.cell is not None)
    return {cell: [row for row in rows if row.cell == cell] for cell in cells}


def cell_history(rows: Sequence[HistoryRow], bounds: Sequence[Bound] = BOUNDS) -> CellHistory:
    """Return the segments and the change points of one cell's runs (at least one).

    Undetermined and invalid runs are left out. Counts of messages by identity are not searched: one
    is a failure of its run.
    """
    ordered = sorted(rows, key=lambda row: (row.created_at, row.run_id))
    results = [row for row in ordered if row.is_result]
    parts: list[tuple[list[HistoryRow], list[str]]] = [(results[:1], [])] if results else []
    for before, after in pairwise(results):
        changed = before.environment.changes(after.environment)
        if changed:
            parts.append(([], changed))
        parts[-1][0].append(after)
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
            for part, why in parts
        ),
        left_out=tuple(row.run_id for row in ordered if not row.is_result),
    )


Stretch = tuple[Bound, Sequence[str], Reals, int]
"""Between two change points: bound of a measure, its runs, their values, fewest after a split."""


def _changes(rows: Sequence[HistoryRow], bounds: Sequence[Bound]) -> Iterator[Change]:
    """Yield the changes of a segment that are larger than their bound."""
    waiting: list[Stretch] = []
    for bound in bounds:
        values = {row.run_id: row.measures.get(bound.name) for row in rows}
        known = {run_id: value for run_id, value in values.items() if value is not None}
        waiting.append((bound, [*known], np.array([*known.values()], float), SUSPECTED_POINTS))
    while waiting:
        splits = [(of, *best_split(of[2], of[3])) for of in waiting]
        family = [(of, at, p) for of, at, p in splits if at]
        adjusted = holm([p for _, _, p in family])
        waiting = []
        for ((bound, run_ids, every, fewest_after), at, _), p in zip(family, adjusted, strict=True):
            if p > ALPHA:
                continue
            before, after = every[:at], every[at:]
            means = float(before.mean()), float(after.mean())
            if abs(means[1] - means[0]) > bound.width(means[0]):
                yield Change(
                    measure=bound.name,
                    status="confirmed" if after.size >= FEWEST_POINTS else "suspected",
                    last_run_before=run_ids[at - 1],
                    first_run_after=run_ids[at],
                    mean_before=means[0],
                    mean_after=means[1],
                    points_before=before.size,
                    points_after=after.size,
                    p=p,
                )
            # Only at the end of the segment may a change have just begun.
            waiting += [
                (bound, run_ids[:at], before, FEWEST_POINTS),
                (bound, run_ids[at:], after, fewest_after),
            ]


def best_split(values: Reals, fewest_after: int = FEWEST_POINTS) -> tuple[int, float]:
    """Return the index of the first value after the best split, and the p-value of no change.

    Index 0: there are too few values, or all are equal.

    :param fewest_after: least number of values after the split; ``FEWEST_POINTS`` are before it.
    """
    places = np.arange(FEWEST_POINTS, values.size - fewest_after + 1)
    if not places.size or np.all(values == values[0]):
        return 0, 1.0
    from scipy.stats import permutation_test  # it costs 0.8 s

    tested = permutation_test(
        (values,),
        lambda series, axis: _energy_distances(series, places).max(axis=axis),
        permutation_type="pairings",
        alternative="greater",
        vectorized=True,
        n_resamples=PERMUTATIONS,
        batch=200,
        rng=np.random.default_rng(_SEED),
    )
    return int(places[np.argmax(_energy_distances(values, places))]), float(tested.pvalue)


def _energy_distances(series: Reals, places: Ints) -> Reals:
    """Return the scaled energy distance of each split: its values are in the last axis."""
    size = series.shape[-1]
    distances = np.abs(series[..., :, None] - series[..., None, :])
    sums = distances.cumsum(axis=-2).cumsum(axis=-1)
    before = sums[..., places - 1, places - 1]
    between = sums[..., places - 1, size - 1] - before
    after = sums[..., -1, -1, None] - before - 2 * between
    m, n = places.astype(np.float64), (size - places).astype(np.float64)
    energy = 2 * between / (m * n) - before / (m * (m - 1)) - after / (n * (n - 1))
    found: Reals = m * n / (m + n) * energy
    return found
