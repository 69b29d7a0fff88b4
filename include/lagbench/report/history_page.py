"""The page of a cell over time: a small picture for each measure, and what changed when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lagbench.core.compare.cell_history import LIMIT_PREFIX, HistoryRow, by_cell, cell_history
from lagbench.core.compare.compare import BOUNDS
from lagbench.core.measures.measures import NAMED
from lagbench.report.bench_page import render_bench_page
from lagbench.report.line_chart import line_chart
from lagbench.report.series import Series
from lagbench.results.compared_runs import Baseline

MOST_RUNS = 60
"""The newest runs of a cell that are drawn; the table has them, too."""
_SIZE = (380, 150)


class Mark(NamedTuple):
    """A change from a run on: the run's place, and the words."""

    place: int
    kind: str  # policy, scenario or version
    text: str


def render_cells(rows: Sequence[HistoryRow], *, prefix: str) -> str:
    """Return the page of all cells, by the names that readers give them."""
    cells = [(name, of[-1], len(of)) for name, of in by_name(rows).items()]
    cells.sort(key=lambda cell: cell[1].created_at, reverse=True)
    return render_bench_page("cells", title="History", here="history", prefix=prefix, cells=cells)


def render_history(
    rows: Sequence[HistoryRow],
    *,
    prefix: str,
    pinned: Baseline | None,
    accepted: Sequence[Baseline],
    acceptable: Collection[str],
    reports: Collection[str],
    has_accepted: bool = False,
) -> str:
    """Return the page of the runs that have one name of a cell (at least one), oldest first.

    :param pinned: the current baseline of the newest cell.
    :param accepted: every baseline that a run of the name has been.
    :param acceptable: the runs that this reader may accept as the baseline.
    :param reports: the runs that have a report.
    :param has_accepted: the baseline was accepted a moment ago.
    """
    shown = rows[-MOST_RUNS:]
    marks = list(_marks(shown))
    of_newest = [row for row in rows if row.cell == rows[-1].cell]
    changes = cell_history(of_newest).newest_changes if rows[-1].cell else ()
    names = [bound.name for bound in BOUNDS]
    zero = [name for name in names if {row.measures.get(name) for row in shown} <= {0.0, None}]
    return render_bench_page(
        "history",
        title=f"History of {rows[-1].cell_name}",
        here="history",
        prefix=prefix,
        name=rows[-1].cell_name,
        rows=shown[::-1],
        left_out=len(rows) - len(shown),
        baseline=pinned,
        accepted=sorted(accepted, key=lambda one: -one.pinned_at),
        acceptable=acceptable,
        reports=reports,
        zero=[
            NAMED[name].title
            for name in zero
            if any(row.measures.get(name) == 0.0 for row in shown)
        ],
        marks=marks,
        changes=changes,
        panels=[
            one
            for name in names
            if name not in zero and (one := _panel(shown, name, marks, pinned))
        ],
        columns=[NAMED[name] for name in names[:5]],
        has_accepted=has_accepted,
    )


def by_name(rows: Sequence[HistoryRow]) -> Mapping[str, list[HistoryRow]]:
    """Return the runs by the names of their cells: of several policies or versions, all."""
    found: dict[str, list[HistoryRow]] = {}
    for cell in by_cell(rows).values():
        found.setdefault(cell[-1].cell_name, []).extend(cell)
    return {name: sorted(of, key=lambda row: row.created_at) for name, of in found.items()}


def _marks(rows: Sequence[HistoryRow]) -> Iterator[Mark]:
    """Yield where the policy, the scenario, the machine or a version is another than before."""
    for place, (before, after) in enumerate(pairwise(rows), start=1):
        if before.cell != after.cell:
            policies = [row.manifest.get("cell.policy", "") for row in (before, after)]
            if policies[0] != policies[1]:
                digests = " to ".join(one[:8] for one in policies)
                yield Mark(place, "policy", f"the policy's content changed, {digests}")
            else:
                yield Mark(place, "scenario", "the scenario or the target changed")
        for text in before.environment.changes(after.environment):
            yield Mark(place, "version", text)


def _panel(
    rows: Sequence[HistoryRow], name: str, marks: Sequence[Mark], pinned: Baseline | None
) -> Mapping[str, Any] | None:
    """Return the places of a measure's picture, with its newest limit; None: no run has it."""
    measure, values = NAMED[name], [row.measures.get(name) for row in rows]
    if all(value is None for value in values):
        return None
    places = np.arange(len(rows), dtype=np.float64)
    ends = Series(np.array([-0.6, len(rows) - 0.4]), np.zeros(2))
    limits = [row.measures.get(LIMIT_PREFIX + name) for row in rows]
    newest = next((one for one in reversed(limits) if one is not None), None)
    chart = line_chart(
        measure.heading,
        {"trail": ("", Series(places, np.array(values, dtype=np.float64)))},
        beside=[ends],
        limits=() if newest is None else (newest,),
        size=_SIZE,
    )
    if chart is None:
        return None
    x, y = chart["axes"]
    return chart | {
        "limit": "" if newest is None else measure.number(newest),
        "points": [
            {
                "x": x.at(place),
                "y": y.at(value),
                "kind": row.verdict if row.verdict in ("pass", "fail") else "other",
                "is_baseline": pinned is not None and row.run_id == pinned.run_id,
                "text": f"{row.run_id}: {measure.text(value)}, {row.verdict_text}",
            }
            for place, (row, value) in enumerate(zip(rows, values, strict=True))
            if value is not None
        ],
        "marks": [
            (x.at(place - 0.5), "version" if kind == "version" else "", number)
            for number, (place, kind, _) in enumerate(marks, start=1)
        ],
    }
