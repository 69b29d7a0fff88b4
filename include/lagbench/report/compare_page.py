"""The page of two to six runs: curves on one axis, differences, and what their policies say."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.comparable import (
    ComparedRun,
    RunPair,
    comparable,
    pairs_by_seed,
    side_names,
    sides_by_policy,
)
from lagbench.core.compare.compare import BOUNDS
from lagbench.core.compare.experiment_page import ComparisonTable
from lagbench.core.compare.experiment_result import comparison_of
from lagbench.core.compare.noise_floor import NoiseFloor, bounds_of, closest_floor
from lagbench.core.measures.measures import NAMED
from lagbench.core.measures.model import NANOSECONDS
from lagbench.errors import WrongInput
from lagbench.report.bench_page import render_bench_page
from lagbench.report.line_chart import line_chart
from lagbench.report.series import RunSeries, Series, read_series
from lagbench.results.compared_runs import read_compared

FEWEST_RUNS, MOST_RUNS = 2, 6
_PANELS = (
    ("lag", "total", "Lag, messages", ""),
    ("replicas", "ready", "Ready replicas", ""),
    ("rates", "consumed", "Consumed, messages/s", ""),
    ("latency", "p99", "Time lag p99, s", "time_lag_p99_seconds"),
)
"""Table and line of each curve, its title, and the SLO whose limit is drawn."""


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run as the page shows it."""

    compared: ComparedRun
    series: RunSeries
    policy: str  # the text of its file


def read_shown(folder: RunFolder) -> ShownRun:
    """Return a run with its curves; a run without tables has none.

    :raises NotReady: it has no manifest or no measures yet.
    """
    compared = read_compared(folder)
    policy = folder.read_text(folder.policy) if folder.policy.exists() else ""
    return ShownRun(compared, read_series(folder, compared.measures), policy)


def require_few(count: int) -> None:
    """Reject a number of runs that the page cannot show."""
    if not FEWEST_RUNS <= count <= MOST_RUNS:
        allowed = f"{FEWEST_RUNS} to {MOST_RUNS} runs"
        raise WrongInput(where="compare", field="runs", value=count, allowed=allowed)


def render_compared(
    runs: Sequence[ShownRun],
    floors: Sequence[NoiseFloor] = (),
    *,
    sides: Sequence[Sequence[ComparedRun]] = (),
    varied: Collection[str] = (),
    reports: Collection[str] = (),
    prefix: str | None = None,
) -> str:
    """Return the page's HTML; every run is compared with the first one.

    :param floors: the known noise floors.
    :param sides: the two sides of pairs; empty: the runs of two policies, if they are pairs.
    :param varied: the fields that differ on purpose.
    :param reports: the runs that have a report.
    :raises WrongInput: they are too few or too many.
    """
    require_few(len(runs))
    every = [run.compared for run in runs]
    first = every[0]
    pairs = _pairs(every, sides)
    noise = closest_floor(floors, first, pairs[0][1] if pairs else every[1])
    reasons = {
        other.run_id: found
        for other in every[1:]
        if (found := comparable(first, other, varied=(*varied, "seed", "hpa_sync_at_seconds")))
    }
    tested = None
    if len(pairs) >= FEWEST_RUNS and not reasons:
        names, numbered = side_names(pairs[0], varied), dict(enumerate(pairs, start=1))
        tested = comparison_of(names, numbered, {}, bounds_of(noise), "pair")
    rows = list(_rows(every, noise))
    return render_bench_page(
        "compare",
        title="Comparison",
        here="runs",
        prefix=prefix,
        runs=runs,
        reports=reports,
        reasons=reasons,
        panels=[one for panel in _PANELS if (one := _panel(runs, *panel))],
        origins=sorted({run.series.origin_name for run in runs}),
        rows=rows,
        equal=[heading for heading, cells, _ in rows if len({text for text, *_ in cells}) == 1],
        noise=noise,
        tested=None if tested is None else ComparisonTable.of(tested, noise),
        policies=list(_policies(runs)),
        unkept=[run.compared.run_id for run in runs if not run.policy],
    )


def _pairs(
    runs: Sequence[ComparedRun], sides: Sequence[Sequence[ComparedRun]]
) -> tuple[RunPair, ...]:
    """Return the pairs with the same seed; none: the runs are not two sides."""
    try:
        first, second = sides or sides_by_policy(runs)
        return pairs_by_seed(first, second)
    except WrongInput:
        return ()


def _rows(
    runs: Sequence[ComparedRun], noise: NoiseFloor | None
) -> Iterator[tuple[str, list[tuple[str, str, str]], str]]:
    """Yield heading, cells (value, difference, status) and noise of each measure that a run has."""
    bounds = {bound.name: bound for bound in (*BOUNDS, *bounds_of(noise))}
    for name, measure in NAMED.items():
        before, *others = (measure.read(run.measures) for run in runs)
        if before is None and all(one is None for one in others):
            continue
        cells = [(measure.number(before), "", "")]
        for value in others:
            difference = status = ""
            if before is not None and value is not None and measure.number(value) != cells[0][0]:
                change = value - before
                difference = measure.signed(change)
                if name in bounds and abs(change) > bounds[name].width(before):
                    status = "warn" if change > 0 else "pass"
            cells.append((measure.number(value), difference, status))
        known = None if noise is None else noise.widths.get(name)
        width = "" if known is None else f"± {measure.number(known)}"
        yield measure.heading, cells, width


def _panel(
    runs: Sequence[ShownRun], table: str, name: str, title: str, slo: str
) -> Mapping[str, Any] | None:
    """Return the places of one curve of all runs; None: no run has it."""
    every = [line for run in runs for of in _PANELS if (line := _line(run, *of)) is not None]
    origin, windows = runs[0].series.origin_at, runs[0].compared.measures.load.spike_windows
    return line_chart(
        title,
        {
            f"run-{number}": (f"{number}: {run.compared.run_id}", line)
            for number, run in enumerate(runs, start=1)
            if (line := _line(run, table, name)) is not None
        },
        beside=every,
        limits=[one["number"] for run in runs for one in run.series.limits if one["name"] == slo],
        spikes=[
            ((one.started_at - origin) / NANOSECONDS, (one.ended_at - origin) / NANOSECONDS)
            for one in windows
        ],
    )


def _line(run: ShownRun, table: str, name: str, *_: str) -> Series | None:
    """Return a line of a run; None: nothing of it was measured."""
    line = run.series.lines.get(table, {}).get(name)
    return line if line is not None and np.isfinite(line.values).any() else None


def _policies(runs: Sequence[ShownRun]) -> Iterator[tuple[str, str]]:
    """Yield a title and the difference to the first run's policy, of each other policy once."""
    first, known = runs[0], {runs[0].policy}
    for run in runs[1:]:
        if run.policy in known or not (run.policy and first.policy):
            continue
        known.add(run.policy)
        names = (first.compared.measures.policy, run.compared.measures.policy)
        before, after = (one.policy.splitlines() for one in (first, run))
        found = difflib.unified_diff(before, after, *names, lineterm="", n=2)
        yield f"{names[0]} against {names[1]}", "\n".join(found)
