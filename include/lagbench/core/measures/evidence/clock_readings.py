"""Bound the offset of another clock from answers that carry only whole seconds.

An answer that was requested at ``sent``, was received at ``received`` and carries second D proves
that the other clock showed [D, D + 1 s) at some instant between the two: its offset lies in
[D - received, D + 1 s - sent]. Overlapping bounds of several answers narrow each other. A probe
that arrives when the other clock's second changes halves the remaining width, so ten answers reduce
one second to the time that one answer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lagbench.core.clocks import API_SERVER, Clock, ClockSet, OffsetBound
from lagbench.core.measures.model import NANOSECONDS, MeasureModel


def answer_bound(*, second_at: int, sent_at: int, received_at: int) -> OffsetBound:
    """Return the bound from one answer; ``second_at`` is its whole second in unix nanoseconds."""
    return OffsetBound(second_at - received_at, second_at + NANOSECONDS - sent_at)


def probe_at(bound: OffsetBound | None, not_before_at: int, *, lead_ns: int) -> int:
    """Return when to send the next probe, to arrive when the other clock's second changes.

    This assumes that its offset is the bound's middle and that a probe takes ``lead_ns`` to arrive.
    """
    if bound is None:
        return not_before_at
    arrives_at = not_before_at + lead_ns
    return not_before_at + -(arrives_at + bound.middle_ns) % NANOSECONDS


class RunningBound:
    """The bound from all answers since ``since_at``; a contradiction restarts it."""

    def __init__(self) -> None:
        """Start without a bound."""
        self.bound: OffsetBound | None = None
        self.since_at = 0
        self.answers = 0

    def take(self, found: OffsetBound, *, at: int) -> OffsetBound:
        """Add an answer's bound and return the bound so far."""
        narrowed = None if self.bound is None else self.bound.narrowed_by(found)
        if narrowed is None:
            self.since_at, self.answers, narrowed = at, 0, found
        self.bound = narrowed
        self.answers += 1
        return narrowed


STEP_SECONDS = 0.1
"""More than this is a step: one bin of the timeline, and the limit of the producer's p99."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The wall clock (unix ns), read between two readings of the monotonic clock (ns)."""

    monotonic_before_ns: int
    wall_ns: int
    monotonic_after_ns: int

    @property
    def width_ns(self) -> int:
        """The precision of the reading: the process may have waited between the clocks."""
        return self.monotonic_after_ns - self.monotonic_before_ns

    @property
    def least_offset_ns(self) -> int:
        """Wall clock minus monotonic clock, lower bound."""
        return self.wall_ns - self.monotonic_after_ns

    @property
    def offset_ns(self) -> int:
        """Wall clock minus monotonic clock, middle of the possible range."""
        return self.least_offset_ns + self.width_ns // 2


def closest_reading(read: Callable[[], ClockReading], tries: int = 5) -> ClockReading:
    """Return the most exact of several readings: a busy machine sometimes interrupts one."""
    return min((read() for _ in range(tries)), key=lambda reading: reading.width_ns)


class ClockSteps:
    """Detect the steps of one wall clock from its readings."""

    def __init__(self, first: ClockReading) -> None:
        """Compare with ``first``."""
        self._before = first

    def take(self, reading: ClockReading) -> float | None:
        """Return the clock's step in seconds (above 0: forward); None: no step.

        A reading counts only within its precision: an interrupted reading proves no step.
        """
        before = self._before
        moved_ns = reading.offset_ns - before.offset_ns
        unsure_ns = (reading.width_ns + before.width_ns + 1) // 2
        if abs(moved_ns) - unsure_ns <= STEP_SECONDS * NANOSECONDS:
            return None
        self._before = reading
        return moved_ns / NANOSECONDS


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
