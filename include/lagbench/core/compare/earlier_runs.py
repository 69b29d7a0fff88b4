"""How a run differs from the last run of its cell, and from the cell's baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from lagbench.core.compare.cell_history import HistoryRow
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import MeasureModel

SHOWN = (
    "time_lag_p99_seconds",
    "drain_seconds",
    "reaction_seconds",
    "peak_lag_records",
    "rebalance_dip_percent",
    "pod_minutes",
    "flips",
)


class EarlierRun(MeasureModel):
    """A run of the same cell; ``changed``: what else is other since it, of machine or versions."""

    name: str  # last run, or baseline
    run_id: str
    measures: Mapping[str, float | None]
    changed: tuple[str, ...] = ()


class EarlierRuns(MeasureModel):
    """The runs beside which a run is shown, as they were known when it was judged."""

    runs: tuple[EarlierRun, ...] = ()
    noise: Mapping[str, float] = {}
    """By how much two runs of the cell differ by chance, by measure, where it was measured."""


class Difference(NamedTuple):
    """A measure beside that of each earlier run, in words."""

    title: str
    value: str
    others: tuple[str, ...]
    by_chance: str


def earlier_of(
    rows: Sequence[HistoryRow], run_id: str, baseline: str | None, noise: Mapping[str, float]
) -> EarlierRuns:
    """Return the last run before ``run_id`` and the baseline, of the rows of its cell."""
    own = next((row for row in rows if row.run_id == run_id), None)
    if own is None:
        return EarlierRuns()
    before = [row for row in rows if row.is_result and row.created_at < own.created_at]
    named = {"last run": before[-1]} if before else {}
    pinned = next((row for row in before if row.run_id == baseline), None)
    if pinned is not None:
        named = {"last run, the baseline": pinned} if pinned is before[-1] else named
        named |= {} if pinned is before[-1] else {"baseline": pinned}
    runs = tuple(
        EarlierRun(
            name=name,
            run_id=row.run_id,
            measures={key: row.measures.get(key) for key in SHOWN},
            changed=tuple(row.environment.changes(own.environment)),
        )
        for name, row in named.items()
    )
    return EarlierRuns(runs=runs, noise={k: v for k, v in noise.items() if k in SHOWN})


def differences(earlier: EarlierRuns, measures: Measures) -> Iterator[Difference]:
    """Yield a row for each shown measure that the run and an earlier one have."""
    for name in SHOWN:
        value, named = NAMED[name].read(measures), NAMED[name]
        known = [run.measures.get(name) for run in earlier.runs]
        if value is None or all(one is None for one in known):
            continue
        noise = earlier.noise.get(name)
        yield Difference(
            named.title,
            named.text(value),
            tuple(_beside(name, value, one) for one in known),
            "" if noise is None else f"± {named.number(noise)}",
        )


def lines(earlier: EarlierRuns, measures: Measures, most: int = 3) -> tuple[str, ...]:
    """Return a line for each earlier run, with the first measures."""
    rows = [*differences(earlier, measures)][:most]
    return tuple(
        f"- {run.name.capitalize()} `{run.run_id}`: "
        + "; ".join(f"{row.title} {row.others[number]}" for row in rows)
        for number, run in enumerate(earlier.runs)
        if rows
    )


def _beside(name: str, value: float, other: float | None) -> str:
    """Return the value of another run, with the difference to it."""
    if other is None:
        return "–"
    named = NAMED[name]
    difference = round(value - other, named.digits) or 0.0  # no -0.0
    return f"{named.text(other)} ({difference:+,.{named.digits}f})"
