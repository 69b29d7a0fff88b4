"""Bound every clock that stamps a run against the recorder's clock.

On the embedded bench everything runs on one machine with one clock. On a cluster the recorder
bounds the clocks of the API server and of each node from the ``Date`` headers of their answers. A
clock that it could not query is unbounded, which is not the same as an offset of zero.

All instants of a run are on the recorder's clock. The known offset of another clock is subtracted
once from every record of its owner, when the evidence is read (``on_recorders_clock``). The rest is
that clock's error; it widens the interval of each value that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import PodStarted, StreamStarted
from lagbench.core.telemetry.records_of_recorder import ClockOffset, PodSeen

API_SERVER = "API server"


@dataclass(frozen=True, slots=True)
class OffsetBound:
    """The other clock minus ours lies in [low_ns, high_ns]."""

    low_ns: int
    high_ns: int

    @property
    def width_ns(self) -> int:
        """The remaining uncertainty."""
        return self.high_ns - self.low_ns

    @property
    def middle_ns(self) -> int:
        """The middle of the bound, wrong by at most half the width."""
        return (self.low_ns + self.high_ns) // 2

    def narrowed_by(self, other: OffsetBound) -> OffsetBound | None:
        """Return the overlap; None if the two contradict each other: the clocks drifted."""
        low, high = max(self.low_ns, other.low_ns), min(self.high_ns, other.high_ns)
        return OffsetBound(low, high) if low <= high else None

    def joined_with(self, other: OffsetBound) -> OffsetBound:
        """Return the bound that holds for both."""
        return OffsetBound(min(self.low_ns, other.low_ns), max(self.high_ns, other.high_ns))


@dataclass(frozen=True, slots=True)
class Clock:
    """One clock against the recorder's; not steady: the offset moved inside the bound."""

    name: str
    bound: OffsetBound
    is_steady: bool
    answers: int

    @property
    def shift_ns(self) -> int:
        """The offset to subtract from its stamps: zero while the bound allows zero."""
        is_zero_allowed = self.bound.low_ns <= 0 <= self.bound.high_ns
        return 0 if is_zero_allowed else self.bound.middle_ns

    @property
    def error_ns(self) -> int:
        """The largest error of a stamp after the shift."""
        shift = self.shift_ns
        return max(abs(self.bound.low_ns - shift), abs(self.bound.high_ns - shift))


@dataclass(frozen=True, slots=True)
class ClockSet:
    """The clocks of a run by name, and the clock of each pod."""

    is_one_clock: bool
    by_name: Mapping[str, Clock] = field(default_factory=dict)
    name_of_pod: Mapping[str, str] = field(default_factory=dict)
    unbounded_pods: tuple[str, ...] = ()

    @property
    def shifts(self) -> dict[str, int]:
        """The shifts by pod, without those that are 0."""
        clocks = {pod: self.by_name[name] for pod, name in self.name_of_pod.items()}
        return {pod: clock.shift_ns for pod, clock in clocks.items() if clock.shift_ns}

    def of_api_server(self) -> Clock | None:
        """Return the API server's clock; None: not bounded."""
        return _THIS_MACHINE if self.is_one_clock else self.by_name.get(API_SERVER)

    def of_pod(self, pod: str) -> Clock | None:
        """Return the clock of a pod, which is its node's; None: not bounded.

        The autoscaler's records name its Deployment: then the clock is the one that its pods share.
        """
        if self.is_one_clock:
            return _THIS_MACHINE
        if pod in self.name_of_pod:
            return self.by_name.get(self.name_of_pod[pod])
        shared = {name for of, name in self.name_of_pod.items() if of.startswith(f"{pod}-")}
        return self.by_name.get(shared.pop()) if len(shared) == 1 else None

    def on_recorders(self, at: int, pod: str) -> int:
        """Return a stamp of a pod on the recorder's clock, as far as that is known."""
        clock = self.of_pod(pod)
        return at if clock is None else at - clock.shift_ns

    def error_seconds(self, pods: Iterable[str]) -> float | None:
        """Return the largest error of a stamp of these pods; None: one's clock is not bounded."""
        clocks = [self.of_pod(pod) for pod in pods]
        known = [clock.error_ns for clock in clocks if clock is not None]
        return None if len(known) < len(clocks) else max(known, default=0) / NS_PER_SECOND


_THIS_MACHINE = Clock("this machine", OffsetBound(0, 0), is_steady=True, answers=0)
ONE_CLOCK = ClockSet(is_one_clock=True)


def clock_set(records: Sequence[TelemetryRecord], fidelity: str | None) -> ClockSet:
    """Return the clocks of a run from the recorder's last record of each period."""
    if fidelity != "kubernetes":
        return ONE_CLOCK
    periods: dict[str, dict[int, ClockOffset]] = {}
    name_of_pod: dict[str, str] = {}
    for record in records:
        if isinstance(record, ClockOffset):
            periods.setdefault(record.clock, {})[record.since_at] = record
            name_of_pod |= dict.fromkeys(record.pods, record.clock)
    seen = [record for record in records if isinstance(record, PodSeen)]
    # A pod may come and go between two answers of its node.
    name_of_pod |= {record.pod: record.node for record in seen if record.node in periods}
    return ClockSet(
        is_one_clock=False,
        by_name={name: _clock(name, list(of.values())) for name, of in periods.items()},
        name_of_pod=name_of_pod,
        unbounded_pods=tuple(sorted({record.pod for record in seen} - name_of_pod.keys())),
    )


def on_recorders_clock(
    records: Sequence[TelemetryRecord], clocks: ClockSet
) -> list[TelemetryRecord]:
    """Return ``records`` by instant, each shifted by the known offset of its owner's clock.

    The recorder's own records stay unchanged, as do records whose owner's clock is not known.
    """
    if clocks.is_one_clock:
        return list(records)
    shifts = {source: -clocks.on_recorders(0, source) for source in {r.source for r in records}}
    for source in {record.source for record in records if isinstance(record, ClockOffset)}:
        shifts[source] = 0
    moved = [_shifted(record, shifts[record.source]) for record in records]
    return sorted(moved, key=lambda record: record.at)


def _shifted(record: TelemetryRecord, shift_ns: int) -> TelemetryRecord:
    if not shift_ns:
        return record
    fields = {"at": record.at - shift_ns}
    if isinstance(record, StreamStarted):
        fields["stream_started_at"] = record.stream_started_at - shift_ns
    elif isinstance(record, PodStarted):
        fields["process_started_at"] = record.process_started_at - shift_ns
    return msgspec.structs.replace(record, **fields)


def _clock(name: str, periods: Sequence[ClockOffset]) -> Clock:
    """Return the overlap of all periods; if they contradict, a bound that covers each."""
    bounds = [OffsetBound(found.low_ns, found.high_ns) for found in periods]
    common: OffsetBound | None = bounds[0]
    hull = bounds[0]
    for bound in bounds[1:]:
        common = None if common is None else common.narrowed_by(bound)
        hull = hull.joined_with(bound)
    answers = sum(found.answers for found in periods)
    return Clock(name, common or hull, is_steady=common is not None, answers=answers)
