"""Check that lag fell monotonically at full parallelism.

Total lag must never rise by more than the tolerance over any 5 s, and never go longer than
PLATEAU_SECONDS without a new minimum. Full parallelism starts when the spike has ended, the desired
replicas are at their maximum of the run and that many pods are Ready; it ends when the replicas are
lowered. The claim ends when the lag is drained.

A gap in the samples of lag or replicas is left out: lag that rose outside the
gap did rise; lag that fell outside the gap is not known to have fallen throughout. The time in
which an action lets the producer's client hold messages back is left out, too: these messages do
not belong to the lag, and then arrive at once.

The tolerance is the larger of 2 % of the peak lag and the group's work in one second. Committed
offsets jump by a commit interval, so a sample of a steadily falling lag may be that much higher
than the previous one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from lagbench.core.measures.evidence.lag_readings import (
    GAP_SECONDS,
    READ_WITHIN_SECONDS,
    Gap,
    LagSeries,
    RateSeries,
    gaps_between,
    gaps_text,
)
from lagbench.core.measures.evidence.played_actions import NOTHING_HIDDEN, Hidden
from lagbench.core.measures.evidence.producer_report import HeldBack
from lagbench.core.measures.model import (
    NANOSECONDS,
    Interval,
    Ints,
    MeasureModel,
    Reals,
    longest_without_new_minimum,
)
from lagbench.core.telemetry.records_of_recorder import ReplicaSample

RISE_WINDOW_SECONDS = 5.0
PLATEAU_SECONDS = 15.0
PEAK_SHARE = 0.02
NEAR = 1.25
"""A drain of at most this many times its lower bound cannot be shortened much by more pods."""


@dataclass(frozen=True, slots=True)
class LagFall:
    """The fall of lag, as the fields of ``Drain`` state it; None: no window to judge."""

    falls_monotonically: bool | None
    monotone_text: str
    max_rise_records: int | None = None
    tolerance_records: float | None = None
    longest_plateau_seconds: float | None = None
    open_lag_gaps: tuple[tuple[int, int], ...] = ()


def full_parallelism(
    replicas: Sequence[ReplicaSample], spike_ended_at: int | None, until_at: int
) -> tuple[int, int] | None:
    """Return the window of full parallelism after the spike; None when there was none."""
    samples = [sample for sample in replicas if sample.at <= until_at]
    if not samples or spike_ended_at is None:
        return None
    most = max(sample.spec for sample in samples)
    after = [sample for sample in samples if sample.at >= spike_ended_at]
    full = [sample.at for sample in after if sample.spec == most and sample.ready >= most]
    if not full:
        return None
    lowered = [sample.at for sample in after if sample.at > full[0] and sample.spec < most]
    return full[0], lowered[0] if lowered else until_at


def lag_fall(
    series: LagSeries,
    rate: RateSeries,
    window: tuple[int, int] | None,
    drained_at: int | None,
    replicas_gaps: Sequence[Gap] = (),
    *,
    held: Sequence[HeldBack] = (),
    hidden: Hidden = NOTHING_HIDDEN,
) -> LagFall:
    """Return whether lag fell monotonically in ``window`` until it was drained.

    ``replicas_gaps``: gaps in the replica samples after the spike. ``held``: when too much waited
    in the producer's client.
    """
    if window is None:
        return LagFall(None, "never at full parallelism after the spike")
    start_at, end_at = window
    end_at = end_at if drained_at is None else min(end_at, drained_at)
    missing = [gap for gap in replicas_gaps if gap.started_at < end_at]
    if end_at <= start_at:
        if missing:
            return LagFall(None, f"{gaps_text('replicas', missing)} before the lag was drained")
        return LagFall(True, "drained before full parallelism was reached", 0, None, 0.0)
    total = series.total
    inside = (series.at >= start_at) & (series.at <= end_at) & ~np.isnan(total)
    at, lag = series.at[inside], total[inside]
    if at.size < 2:
        return LagFall(None, "fewer than two lag samples at full parallelism")
    per_second = rate.processed_between(start_at, end_at) * NANOSECONDS / (end_at - start_at)
    tolerance = max(PEAK_SHARE * float(np.nanmax(total)), per_second)
    lag_gaps = _merged(
        [*gaps_between(at.tolist(), start_at, end_at), *_waits(held, start_at, end_at, hidden)]
    )
    pieces = _pieces(at, [*lag_gaps, *missing])
    rise = max((max_rise(at[piece], lag[piece]) for piece in pieces), default=0.0)
    plateaus = [longest_without_new_minimum(at[p] / NANOSECONDS, lag[p]) for p in pieces]
    plateau = max((seconds for seconds in plateaus if seconds is not None), default=0.0)
    text = (
        f"highest rise over 5 s {rise:.0f} (tolerance {tolerance:.0f}), longest time without a new"
        f" minimum {plateau:.0f} s (limit {PLATEAU_SECONDS:.0f} s)"
    )
    falls: bool | None = rise <= tolerance and plateau <= PLATEAU_SECONDS
    open_gaps: tuple[tuple[int, int], ...] = ()
    if falls and (lag_gaps or missing):
        falls = None
        if not missing:
            open_gaps = tuple((gap.started_at, gap.ended_at) for gap in lag_gaps)
        texts = [gaps_text("lag", lag_gaps), gaps_text("replicas", missing)]
        text = f"{text}; {' and '.join(filter(None, texts))}"
    return LagFall(falls, text, int(rise), tolerance, plateau, open_gaps)


def _waits(held: Sequence[HeldBack], start_at: int, end_at: int, hidden: Hidden) -> list[Gap]:
    """Return when an action let messages wait in the producer's client, within the window."""
    return [
        Gap(max(one.started_at, start_at), min(one.ended_at, end_at))
        for one in held
        if one.started_at < end_at and one.ended_at > start_at and hidden.by("backlog", one.at)
    ]


def _merged(gaps: Sequence[Gap]) -> list[Gap]:
    """Return the gaps as their union; one that lasts no longer than a gap may is none."""
    union: list[Gap] = []
    for gap in sorted(gaps, key=lambda one: one.started_at):
        if union and gap.started_at <= union[-1].ended_at:
            union[-1] = Gap(union[-1].started_at, max(union[-1].ended_at, gap.ended_at))
        else:
            union.append(gap)
    return [gap for gap in union if gap.seconds > GAP_SECONDS]


def _pieces(at: Ints, gaps: Sequence[Gap]) -> list[slice]:
    """Return the samples between gaps, as slices of ``at``; no sample lies in a gap."""
    cuts = {0, at.size}
    for gap in gaps:
        cuts.add(int(np.searchsorted(at, gap.started_at, side="right")))
        cuts.add(int(np.searchsorted(at, gap.ended_at, side="left")))
    return [
        slice(left, right)
        for left, right in pairwise(sorted(cuts))
        if not any(s.started_at < at[left] and at[right - 1] < s.ended_at for s in gaps)
    ]


def max_rise(at: Ints, lag: Reals) -> float:
    """Return the highest rise from a sample to a later one at most 5 s away; 0 if it only fell."""
    reach = np.searchsorted(at, at + round(RISE_WINDOW_SECONDS * NANOSECONDS), side="right")
    rises = [float(lag[i : reach[i]].max() - lag[i]) for i in range(at.size)]
    return max(0.0, *rises)


class Drain(MeasureModel):
    """From the end of the last spike to total lag at or below the threshold."""

    spike_ended_at: int | None
    drained_at: int | None
    drain_seconds: float | None
    precision_seconds: float | None  # to the last sample above; it may have drained since
    threshold_records: float | None
    threshold_text: str
    falls_monotonically: bool | None
    max_rise_records: int | None  # over any 5 s at full parallelism
    tolerance_records: float | None
    longest_plateau_seconds: float | None
    monotone_text: str
    skew_limited_seconds: float | None  # no drain can be shorter
    hottest_partition: int | None
    above_until_at: int | None = None  # lag was last known above the threshold (spike end, if not)
    open_lag_gaps: tuple[tuple[int, int], ...] = ()  # they alone leave the monotone fall open
    clock_error_seconds: float | None = 0.0  # of the spike's end; None: that clock is not bounded
    read_within_seconds: float = 0.0  # of ``drained_at``: the most that its reading took

    @property
    def drain_interval(self) -> Interval | None:
        """Return the bounds of ``drain_seconds``; None: not drained, or a clock is not bounded."""
        seconds, error = self.drain_seconds, self.clock_error_seconds
        if seconds is None or error is None:
            return None
        low = seconds - (self.precision_seconds or 0.0) - error
        return low, seconds + self.read_within_seconds + error


def drain_measure(
    series: LagSeries,
    replicas: Sequence[ReplicaSample],
    rate: RateSeries,
    *,
    spike_ended_at: int | None,
    until_at: int,
    threshold: tuple[float | None, str],
    pod_rate: float | None,
    held: Sequence[HeldBack] = (),
    clock_error_seconds: float | None = 0.0,
    hidden: Hidden = NOTHING_HIDDEN,
) -> Drain:
    """Return the drain after ``spike_ended_at``; all None without a spike or a threshold.

    ``threshold``: the lag that counts as drained, and where it comes from. ``held``: when too much
    waited in the producer's client. ``clock_error_seconds``: the largest error of the spike's end,
    which is on the producer's clock; None: not bounded.
    """
    drained_at, above_until_at = drained(series, spike_ended_at, until_at, threshold[0], held)
    window = full_parallelism(replicas, spike_ended_at, until_at)
    sampled = [sample.at for sample in replicas]
    gaps = [] if spike_ended_at is None else gaps_between(sampled, spike_ended_at, until_at)
    fall = lag_fall(series, rate, window, drained_at, gaps, held=held, hidden=hidden)
    hottest, limit = _skew_limit(series, spike_ended_at, pod_rate)
    return Drain(
        spike_ended_at=spike_ended_at,
        drained_at=drained_at,
        drain_seconds=_seconds_between(spike_ended_at, drained_at),
        precision_seconds=_seconds_between(above_until_at, drained_at),
        above_until_at=above_until_at,
        clock_error_seconds=clock_error_seconds,
        read_within_seconds=_read_within(series, drained_at),
        threshold_records=threshold[0],
        threshold_text=threshold[1],
        **asdict(fall),
        skew_limited_seconds=limit,
        hottest_partition=hottest,
    )


def drained(
    series: LagSeries,
    spike_ended_at: int | None,
    until_at: int,
    threshold: float | None,
    held: Sequence[HeldBack] = (),
) -> tuple[int | None, int | None]:
    """Return when lag was first seen drained, and when it was last known not to be before that.

    Lag that was never known above the threshold may have been drained since the spike's end.
    """
    if spike_ended_at is None or threshold is None:
        return None, None
    total = series.total
    is_held = np.zeros(series.at.size, dtype=bool)
    for each in held:
        is_held |= (series.at >= each.started_at) & (series.at <= each.ended_at)
    inside = (series.at >= spike_ended_at) & (series.at <= until_at)
    fitting = np.flatnonzero(inside & (total <= threshold) & ~is_held)
    drained_at = int(series.at[fitting[0]]) if fitting.size else None
    last_at = until_at if drained_at is None else drained_at - 1
    above = series.at[((total > threshold) | is_held) & (series.at <= last_at)]
    since_at = int(above[-1]) if above.size else spike_ended_at
    return drained_at, max(since_at, spike_ended_at)


def _read_within(series: LagSeries, at: int | None) -> float:
    """Return the most that the reading of the sample stamped ``at`` took; 0 without a sample."""
    if at is None:
        return 0.0
    later = series.at[series.at > at]
    until_next = (int(later[0]) - at) / NANOSECONDS if later.size else READ_WITHIN_SECONDS
    return min(until_next, READ_WITHIN_SECONDS)


def _seconds_between(start_at: int | None, end_at: int | None) -> float | None:
    return None if start_at is None or end_at is None else (end_at - start_at) / NANOSECONDS


def _skew_limit(
    series: LagSeries, spike_ended_at: int | None, pod_rate: float | None
) -> tuple[int | None, float | None]:
    index = None if spike_ended_at is None else series.index_at(spike_ended_at)
    if index is None or np.isnan(series.by_partition[index]).any():
        return None, None
    row = series.by_partition[index]
    hottest = int(np.argmax(row))
    seconds = None if pod_rate is None else float(row[hottest]) / pod_rate
    return int(series.partitions[hottest]), seconds
