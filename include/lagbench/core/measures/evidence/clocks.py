"""State the clocks of a run as a measure."""

from __future__ import annotations

from lagbench.core.clocks import API_SERVER, Clock, ClockSet
from lagbench.core.measures.model import NANOSECONDS, MeasureModel


class ClockBound(MeasureModel):
    """The offset of a clock from the recorder's; not steady: it moved inside the bound."""

    clock: str
    low_seconds: float
    high_seconds: float
    is_steady: bool
    answers: int


class Clocks(MeasureModel):
    """The clocks that stamped the chain."""

    is_one_clock: bool
    bounds: tuple[ClockBound, ...]
    text: str
    unbounded_pods: tuple[str, ...] = ()


def clocks_measure(clocks: ClockSet) -> Clocks:
    """Return the clocks as ``measures.json`` states them."""
    if clocks.is_one_clock:
        return Clocks(is_one_clock=True, bounds=(), text="one clock: all ran on one machine")
    by_name = sorted(clocks.by_name.values(), key=lambda clock: clock.name)
    found = sorted(by_name, key=lambda clock: clock.name != API_SERVER)
    parts = [_text(clock) for clock in found]
    if API_SERVER not in clocks.by_name:
        parts.insert(0, f"{API_SERVER} not bounded")
    if clocks.unbounded_pods:
        parts.append(f"not bounded: the clocks of {', '.join(clocks.unbounded_pods)}")
    return Clocks(
        is_one_clock=False,
        bounds=tuple(
            ClockBound(
                clock=clock.name,
                low_seconds=clock.bound.low_ns / NANOSECONDS,
                high_seconds=clock.bound.high_ns / NANOSECONDS,
                is_steady=clock.is_steady,
                answers=clock.answers,
            )
            for clock in found
        ),
        text=f"clocks against the recorder's: {'; '.join(parts)}",
        unbounded_pods=clocks.unbounded_pods,
    )


def _text(clock: Clock) -> str:
    low, high = clock.bound.low_ns / NANOSECONDS, clock.bound.high_ns / NANOSECONDS
    text = f"{clock.name} {low:+.3f} to {high:+.3f} s"
    if clock.is_steady:
        return text
    return f"{text}, drifting: its offset is undetermined within that"
