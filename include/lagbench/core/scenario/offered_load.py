"""Compute the offered load over time: constant rates between steps, and planned instants.

The planned instants are the definition: event k is due when the integral of the rate reaches k + 1.
Counts are derived from them, so a count and an instant can never disagree. The integral at the
steps is exact (rational arithmetic on the decimal numbers as written); between steps it is linear.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, NS_PER_SECOND
from lagbench.core.scenario.profiles import (
    LONGEST_SECONDS,
    Profile,
    StagesProfile,
    SteadyProfile,
    StepProfile,
    TraceProfile,
)
from lagbench.errors import WrongInput

NS = NS_PER_SECOND
StepKind = Literal["spike_start", "spike_end", "change"]
Instants = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segment:
    """From ``start_seconds`` on, the rate is ``rate_per_second``; ``is_spike`` marks a burst."""

    start_seconds: float
    rate_per_second: float
    is_spike: bool = False


@dataclass(frozen=True, slots=True)
class RateStep:
    """The offered rate changes at ``at_ns`` after the start of the stream."""

    at_ns: int
    step: StepKind
    rate_before: float
    rate_after: float


@dataclass(frozen=True)
class OfferedLoad:
    """A profile as segments in ascending order, the first at 0; rate 0 from ``duration`` on."""

    segments: tuple[Segment, ...]
    duration_seconds: float
    marks_spikes: bool = True  # False: a trace, or stages, without a marked spike

    @property
    def total(self) -> int:
        """Return how many events the whole stream has."""
        return int(self._events_before[-1])

    @property
    def duration_ns(self) -> int:
        """Return the length of the stream in nanoseconds."""
        return int(self._edges_ns[-1])

    @property
    def base_rate(self) -> float:
        """Return the rate outside spikes (the lowest above 0 when nothing is marked a spike)."""
        quiet = [part.rate_per_second for part in self.segments if not part.is_spike]
        return min((rate for rate in quiet if rate > 0), default=0.0)

    @property
    def longest_pause_seconds(self) -> float | None:
        """Return the longest time from a spike's end to the next one's start; None: no two."""
        starts = [item.at_ns for item in self.steps if item.step == "spike_start"]
        ends = [item.at_ns for item in self.steps if item.step == "spike_end"]
        pauses = [after - before for before, after in zip(ends, starts[1:], strict=False)]
        return max(pauses) / NS if pauses else None

    @property
    def peak_rate(self) -> float:
        """Return the highest rate."""
        return max(part.rate_per_second for part in self.segments)

    @cached_property
    def steps(self) -> tuple[RateStep, ...]:
        """Return where the rate changes, and the end of a spike that ends the stream."""
        found: list[RateStep] = []
        for index, (before, after) in enumerate(
            zip(self.segments, self.segments[1:], strict=False)
        ):
            if before.rate_per_second == after.rate_per_second:
                continue
            kind: StepKind = "change"
            if after.is_spike and not before.is_spike:
                kind = "spike_start"
            elif before.is_spike and not after.is_spike:
                kind = "spike_end"
            edge = int(self._edges_ns[index + 1])
            found.append(RateStep(edge, kind, before.rate_per_second, after.rate_per_second))
        last = self.segments[-1]
        if self.segments[0].is_spike:
            found.insert(0, RateStep(0, "spike_start", 0.0, self.segments[0].rate_per_second))
        if last.is_spike:
            found.append(RateStep(self.duration_ns, "spike_end", last.rate_per_second, 0.0))
        return tuple(found)

    def with_tail(self, rate_per_second: float, seconds: float) -> OfferedLoad:
        """Return this load, the planned window, then ``rate_per_second`` for ``seconds``."""
        tail = Segment(self.duration_seconds, rate_per_second)
        ends_at = float(_decimal(self.duration_seconds) + _decimal(seconds))
        return OfferedLoad((*self.segments, tail), ends_at, marks_spikes=self.marks_spikes)

    def planned_times(self, seq_from: int, seq_to: int) -> Instants:
        """Return the planned offsets in ns of events ``seq_from`` to ``seq_to - 1``, ascending."""
        seq = np.arange(max(seq_from, 0), min(seq_to, self.total), dtype=np.int64)
        part = np.searchsorted(self._events_before, seq, side="right") - 1
        # The share of the segment's own count that is due: below 1e12, so exact to the nanosecond.
        wanted = (seq - self._events_before[part]) + (1.0 - self._fraction_before[part])
        after_edge = np.rint(wanted * self._ns_per_event[part]).astype(np.int64)
        limit: Instants = self._edges_ns[part + 1]
        times: Instants = np.minimum(self._edges_ns[part] + after_edge, limit)
        return times

    def planned_count_at(self, offset_ns: int) -> int:
        """Return how many events are due up to and at ``offset_ns`` after the start."""
        if offset_ns <= 0:
            return 0
        if offset_ns >= self.duration_ns:
            return self.total
        part = int(np.searchsorted(self._edges_ns, offset_ns, side="right")) - 1
        low, high = int(self._events_before[part]), int(self._events_before[part + 1])
        if low == high:
            return low
        passed = (offset_ns - int(self._edges_ns[part])) / float(self._ns_per_event[part])
        guess = low + int(passed + float(self._fraction_before[part]))
        # Rounding may put the guess one off; the instants decide.
        first = max(guess - 2, low)
        near = self.planned_times(first, min(guess + 3, high))
        return first + int(np.searchsorted(near, offset_ns, side="right"))

    def planned_count(self, seconds: float) -> int:
        """Return how many events are due ``seconds`` after the start."""
        return self.planned_count_at(round(seconds * NS))

    @cached_property
    def _integral(self) -> list[Fraction]:
        edges = [*(part.start_seconds for part in self.segments), self.duration_seconds]
        total, integral = Fraction(0), [Fraction(0)]
        for part, start, end in zip(self.segments, edges, edges[1:], strict=False):
            total += _decimal(part.rate_per_second) * (_decimal(end) - _decimal(start))
            integral.append(total)
        return integral

    @cached_property
    def _events_before(self) -> Instants:
        """Events due up to each edge; the last is the total."""
        return np.array([int(value) for value in self._integral], dtype=np.int64)

    @cached_property
    def _fraction_before(self) -> npt.NDArray[np.float64]:
        return np.array([float(value - int(value)) for value in self._integral])

    @cached_property
    def _edges_ns(self) -> Instants:
        edges = [*(part.start_seconds for part in self.segments), self.duration_seconds]
        return np.array([round(_decimal(edge) * NS) for edge in edges], dtype=np.int64)

    @cached_property
    def _ns_per_event(self) -> npt.NDArray[np.float64]:
        # A rate of 0 has no events, so its period is never used.
        rates = [part.rate_per_second for part in self.segments]
        return np.array([NS / rate if rate else 0.0 for rate in rates])


@lru_cache(maxsize=64)  # a trace of a day is added up exactly, and asked for in many places
def offered_load(
    profile: Profile, *, where: str = "scenario", may_be_empty: bool = False
) -> OfferedLoad:
    """Return the load of a profile; only an observed one ``may_be_empty``."""
    load = _load(profile, where)
    if load.duration_seconds > LONGEST_SECONDS and not may_be_empty:
        allowed = f"a stream of at most {LONGEST_SECONDS:,} s"
        if isinstance(profile, TraceProfile):
            allowed += "; the column second is in seconds: are these milliseconds?"
        length = f"{load.duration_seconds:,.10g} s"
        raise WrongInput(where=where, field="profile", value=length, allowed=allowed)
    if load.total == 0 and not may_be_empty:
        raise WrongInput(
            where=where, field="profile", value=profile.kind, allowed="at least one event in total"
        )
    return load


def _load(profile: Profile, where: str) -> OfferedLoad:
    match profile:
        case SteadyProfile():
            only = Segment(0.0, profile.rate_per_second)
            return OfferedLoad((only,), profile.duration_seconds)
        case StagesProfile():
            stages = profile.stages
            lengths = [(one.seconds, one.rate_per_second, bool(one.is_spike)) for one in stages]
            is_marked = any(one.is_spike is not None for one in stages)
            return _from_lengths(lengths, marks_spikes=is_marked)
        case TraceProfile():
            return _trace(profile, where)
    base, peak = profile.rate_per_second, _times(profile.rate_per_second, profile.spike_mult)
    spike, after = (profile.spike_hold_seconds, peak, True), (profile.after_seconds, base, False)
    if isinstance(profile, StepProfile):
        return _from_lengths([(profile.before_seconds, base, False), spike, after])
    burst = [(profile.quiet_seconds, base, False), spike]
    return _from_lengths([*(burst * profile.bursts), after])


def _trace(profile: TraceProfile, where: str) -> OfferedLoad:
    seconds = [point.second for point in profile.points]
    if len(seconds) < 2 or seconds[0] != 0 or any(a >= b for a, b in pairwise(seconds)):
        allowed = "at least two rows, seconds ascending from 0 (the last one ends the stream)"
        raise WrongInput(where=where, field="profile.points", value=seconds[:5], allowed=allowed)
    rows = profile.points[:-1]
    parts = tuple(
        Segment(row.second, _times(row.rate_per_second, profile.rate_scale), bool(row.is_spike))
        for row in rows
    )
    is_marked = any(row.is_spike is not None for row in rows)
    return OfferedLoad(parts, seconds[-1], marks_spikes=is_marked)


def _from_lengths(
    lengths: Sequence[tuple[float, float, bool]], *, marks_spikes: bool = True
) -> OfferedLoad:
    """Concatenate (seconds, rate, is_spike); periods that floats cannot show are left out."""
    at, parts = Fraction(0), []
    for seconds, rate, is_spike in lengths:
        end = at + _decimal(seconds)
        if float(end) > float(at):
            parts.append(Segment(float(at), rate, is_spike))
            at = end
    return OfferedLoad(tuple(parts), float(at), marks_spikes=marks_spikes)


def _times(rate: float, factor: float) -> float:
    return float(_decimal(rate) * _decimal(factor))


def _decimal(number: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth, not the nearest binary fraction."""
    return Fraction(repr(float(number)))


@dataclass(frozen=True, slots=True)
class Spike:
    """A period of the stream, in seconds after its start; rates in messages per second."""

    start_seconds: float
    end_seconds: float
    rate_before: float  # 0 at the start of the stream
    rate_peak: float


@lru_cache(maxsize=1024)  # a search asks for them by the draw
def load_spikes(
    load: OfferedLoad, *, started_replicas: int, pod_rate: float | None
) -> tuple[Spike, ...]:
    """Return the spikes of ``load`` in order of time.

    ``started_replicas`` is the policy's floor with load, and ``pod_rate`` what one pod does in
    messages per second; None: it has no limit. Only a load that marks no spike needs them.
    """
    if load.marks_spikes:
        marked = ((start, end) for start, end, part in _parts(load) if part.is_spike)
        return tuple(_spike(load, *period) for period in _joined(marked, 0.0))
    floor = started_replicas * (pod_rate or math.inf)
    above = ((start, end) for start, end, part in _parts(load) if part.rate_per_second > floor)
    periods = _joined(above, HPA_SYNC_SECONDS)
    return tuple(_spike(load, *s) for s in periods if s[1] - s[0] >= HPA_SYNC_SECONDS)


def _parts(load: OfferedLoad) -> Iterator[tuple[float, float, Segment]]:
    edges = [*(part.start_seconds for part in load.segments), load.duration_seconds]
    for (start, end), part in zip(pairwise(edges), load.segments, strict=True):
        yield start, end, part


def _joined(
    periods: Iterator[tuple[float, float]], shorter_than: float
) -> list[tuple[float, float]]:
    """Join periods that touch, or are closer than ``shorter_than``; return all periods."""
    found: list[tuple[float, float]] = []
    for start, end in periods:
        if found and (start <= found[-1][1] or start - found[-1][1] < shorter_than):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _spike(load: OfferedLoad, start: float, end: float) -> Spike:
    rates = [p.rate_per_second for left, right, p in _parts(load) if left < end and right > start]
    before = [p.rate_per_second for _, right, p in _parts(load) if right <= start]
    return Spike(start, end, before[-1] if before else 0.0, max(rates))
