"""The tiles at the top of the report: named measures, each with a note of what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lagbench.core.measures.measures import Measures
from lagbench.core.measures.registry import NAMED


class Tile(NamedTuple):
    """One number of the run with its unit, and what it is."""

    value: str
    title: str
    note: str = ""


def tiles(measures: Measures) -> list[Tile]:
    """Return the tiles in the order of the page; a measure that the run lacks is a dash."""
    return [
        Tile(_value(name, measures), NAMED[name].title, note(measures))
        for name, note in _SHOWN.items()
    ]


def _value(name: str, measures: Measures) -> str:
    return NAMED[name].text(NAMED[name].read(measures))


def _build_up(measures: Measures) -> str:
    build_up = measures.lag.build_up
    rate = None if build_up is None else build_up.records_per_second
    return "" if rate is None else f"built up at {rate:,.0f}/s"


def _dip(measures: Measures) -> str:
    if measures.spark is not None:
        return "not asked: the group of a Spark consumer has no members"
    found = measures.rebalances
    # A scale step's window is wider at low rates.
    steps = [
        (step.dip_percent, step.window_seconds)
        for step in found.episodes
        if step.trigger in ("scale_up", "scale_down") and step.dip_percent is not None
    ]
    window = max(steps, key=lambda step: step[0])[1] if steps else None
    deepest = "deepest" if window is None else f"deepest, in a {window:g} s window"
    area = _value("rebalance_area_seconds", measures)
    return f"{deepest}; {area} of work; {found.after_start} rebalances"


def _pod_time(measures: Measures) -> str:
    ratio = measures.scaling.idle_ratio
    idle = "" if ratio is None else f", {ratio * 100:.0f} % idle"
    return measures.scaling.unwatched_text or f"in the planned window{idle}"


def _time_lag(measures: Measures) -> str:
    during, after = measures.lag.time_lag_seconds, measures.lag.time_lag_seconds_after
    parts = [f"p95 {_value('time_lag_p95_seconds', measures)}"]
    if during.max is not None:
        parts.append(f"max {during.max:,.1f} s")
    if after is not None and after.p99 is not None:
        parts.append(f"p99 {after.p99:,.1f} s after the planned window")
    return ", ".join(parts)


_SHOWN: Mapping[str, Callable[[Measures], str]] = {
    "reaction_seconds": lambda measures: (
        "load step to first "
        + (
            "new pod Ready and assigned"
            if measures.spark is None
            else "task finished on a new worker"
        )
    ),
    "peak_lag_records": _build_up,
    "drain_seconds": lambda _: "after the spike",
    "rebalance_dip_percent": _dip,
    "standstill_seconds": lambda _: "longest, while work waited",
    "lost": lambda _: "",
    "duplicated": lambda _: "",
    "flips": lambda measures: f"in {_value('replica_changes', measures)} replica changes",
    "pod_minutes": _pod_time,
    "time_lag_p99_seconds": _time_lag,
}
