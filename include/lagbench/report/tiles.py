"""The tiles at the top of the report: named measures, each with a note of what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lagbench.core.measures import NAMED, Measures
from lagbench.core.measures.rebalance import Rebalances


@dataclass(frozen=True, slots=True)
class Tile:
    """One number of the run, with its unit."""

    value: str
    title: str
    note: str = ""


def tiles(measures: Measures) -> list[Tile]:
    """Return the tiles in the order of the page; a measure that the run lacks is a dash."""
    return [
        Tile(
            NAMED[name].text(NAMED[name].read(measures)),
            NAMED[name].title,
            "" if note is None else note(measures),
        )
        for name, note in _SHOWN.items()
    ]


def _value(name: str, measures: Measures) -> str:
    return NAMED[name].text(NAMED[name].read(measures))


def _reaction(measures: Measures) -> str:
    if measures.spark is not None:
        return "load step to first task finished on a new worker"
    return "load step to first new pod Ready and assigned"


def _build_up(measures: Measures) -> str:
    build_up = measures.lag.build_up
    if build_up is None or build_up.records_per_second is None:
        return ""
    return f"built up at {build_up.records_per_second:,.0f}/s"


def _dip(measures: Measures) -> str:
    if measures.spark is not None:
        return "not asked: the group of a Spark consumer has no members"
    area, found = _value("rebalance_area_seconds", measures), measures.rebalances
    window = _dip_window(found)
    deepest = "deepest" if window is None else f"deepest, in a {window:g} s window"
    return f"{deepest}; {area} of work; {found.after_start} rebalances"


def _dip_window(found: Rebalances) -> float | None:
    """Return the width of the deepest window of a scale step: it is wider at low rates."""
    steps = [each for each in found.episodes if each.trigger in ("scale_up", "scale_down")]
    known = [each for each in steps if each.dip_percent is not None]
    deepest = max(known, key=lambda each: each.dip_percent or 0.0, default=None)
    return None if deepest is None else deepest.window_seconds


def _flips(measures: Measures) -> str:
    return f"in {_value('replica_changes', measures)} replica changes"


def _pod_time(measures: Measures) -> str:
    ratio = measures.scaling.idle_ratio
    if measures.scaling.unwatched_text:
        return measures.scaling.unwatched_text
    window = "in the planned window"
    return window if ratio is None else f"{window}, {ratio * 100:.0f} % idle"


def _time_lag(measures: Measures) -> str:
    lag = measures.lag
    parts = [f"p95 {_value('time_lag_p95_seconds', measures)}"]
    if lag.time_lag_seconds.max is not None:
        parts.append(f"max {lag.time_lag_seconds.max:,.1f} s")
    after = lag.time_lag_seconds_after
    if after is not None and after.p99 is not None:
        parts.append(f"p99 {after.p99:,.1f} s after the planned window")
    return ", ".join(parts)


_SHOWN: Mapping[str, Callable[[Measures], str] | None] = {
    "reaction_seconds": _reaction,
    "peak_lag_records": _build_up,
    "drain_seconds": lambda _measures: "after the spike",
    "rebalance_dip_percent": _dip,
    "standstill_seconds": lambda _measures: "longest, while work waited",
    "lost": None,
    "duplicated": None,
    "flips": _flips,
    "pod_minutes": _pod_time,
    "time_lag_p99_seconds": _time_lag,
}
