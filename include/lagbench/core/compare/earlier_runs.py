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
    """The runs beside which a run is shown, as they were known when it was judged.

    ``noise``: by how much two runs of the cell differ by chance, where it was measured.
    """

    runs: tuple[EarlierRun, ...] = ()
    noise: Mapping[str, float] = {}


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
    named = {row.run_id: ("last run", row) for row in before[-1:]}
    named |= {row.run_id: ("baseline", row) for row in before if row.run_id == baseline}
    runs = tuple(
        EarlierRun(
            name=name,
            run_id=row.run_id,
            measures={key: row.measures.get(key) for key in SHOWN},
            changed=tuple(row.environment.changes(own.environment)),
        )
        for name, row in named.values()
    )
    return EarlierRuns(runs=runs, noise={name: noise[name] for name in SHOWN if name in noise})


def differences(earlier: EarlierRuns, measures: Measures) -> Iterator[Difference]:
    """Yield a row for each shown measure that the run and an earlier one have."""
    for name in SHOWN:
        named, value = NAMED[name], NAMED[name].read(measures)
        known = [run.measures.get(name) for run in earlier.runs]
        if value is not None and any(one is not None for one in known):
            others = tuple(_beside(name, value, one) for one in known)
            noise = earlier.noise.get(name)
            by_chance = "" if noise is None else f"± {named.number(noise)}"
            yield Difference(named.title, named.text(value), others, by_chance)


def lines(earlier: EarlierRuns, measures: Measures) -> Iterator[str]:
    """Yield a line for each earlier run, with the first three measures."""
    rows = [*differences(earlier, measures)][:3]
    for number, run in enumerate(earlier.runs if rows else ()):
        texts = (f"{row.title} {row.others[number]}" for row in rows)
        yield f"- {run.name.capitalize()} `{run.run_id}`: {'; '.join(texts)}"


def _beside(name: str, value: float, other: float | None) -> str:
    """Return the value of another run, with the difference to it."""
    if other is None:
        return "–"
    digits = NAMED[name].digits
    difference = round(value - other, digits) or 0.0  # no -0.0
    return f"{NAMED[name].text(other)} ({difference:+,.{digits}f})"
