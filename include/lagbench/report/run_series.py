"""Read the series that the report draws from a run folder's tables.

Every instant becomes seconds since ``origin_at`` (the first spike, else the stream's start), on the
recorder's clock as in the measures.
A missing table gives an empty series: the page reports it and draws the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.clocks import ClockSet, clock_set, on_recorders_clock
from lagbench.core.measures import NANOSECONDS, Measures
from lagbench.core.measures.evidence import (
    BIN_NS,
    GAP_SECONDS,
    LagSeries,
    PodTimeline,
    by_life,
    observed_members,
    pod_timelines,
)
from lagbench.core.measures.pods import consumer_cpu
from lagbench.core.measures.rebalance import bins_without_reading, rate_of_commits
from lagbench.core.scenario import knows_work
from lagbench.core.telemetry import (
    PartitionsAssigned,
    PartitionsRevoked,
    Phase,
    PodSeen,
    PodStopped,
    TelemetryRecord,
    decode_record,
)
from lagbench.report.scaling_log import KINDS as SAID_KINDS
from lagbench.report.scaling_log import LogRow, scaling_log
from lagbench.results.run_tables import read_lag, read_rate

Floats = npt.NDArray[np.float64]
DRAWN_KINDS = (
    "phase",
    "partitions_assigned",
    "partitions_revoked",
    "pod_seen",
    "pods_listed",
    "clock_offset",
    *SAID_KINDS,
)
CPU_KINDS = ("consumer_progress",)
MEMBER_KINDS = ("group_sample", "group_members", "pod_seen")
SAMPLE_SECONDS = 1.0
"""From one reading to the next, and from one bin of the time lag to the next."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line: seconds since the origin and values; NaN is a gap and is drawn as one."""

    seconds: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Span:
    """A named period of the shared time axis."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class PodRow:
    """The partitions of a pod over time (a step series), and its timeline."""

    pod: str
    seconds: Floats
    partitions: Floats
    created: float | None
    ready: float | None
    gone: float | None


@dataclass(frozen=True, slots=True)
class RunSeries:
    """The data of the page's figures."""

    origin_at: int
    origin_name: str
    total_lag: Series
    hottest_lag: Series
    desired: Series
    ready: Series
    offered: Series
    consumed: Series
    latency_p99: Series
    cpu_mean: Series  # of the consumer pods, in cores
    cpu_highest: Series
    phases: tuple[Span, ...]
    pods: tuple[PodRow, ...]
    said: tuple[LogRow, ...]  # by the autoscaler


def read_series(folder: RunFolder, measures: Measures) -> RunSeries:
    """Read the tables of ``folder``; missing tables give empty series."""
    origin_at, origin_name = _origin(measures)
    stamped = _records(folder, DRAWN_KINDS)
    clocks = clock_set(stamped, measures.fidelity)
    drawn = on_recorders_clock(stamped, clocks)
    if measures.observation is not None:
        drawn = sorted([*drawn, *observed_members(_records(folder, MEMBER_KINDS))], key=_at)
    records = by_life(drawn)
    lag = _read_lag(folder, measures)
    total, hottest = _lag(lag, origin_at)
    desired, ready = _replicas(folder, origin_at)
    offered, consumed = _rates(folder, measures, lag, origin_at)
    cpu_mean, cpu_highest = _cpu(folder, clocks, origin_at)
    return RunSeries(
        origin_at=origin_at,
        origin_name=origin_name,
        total_lag=total,
        hottest_lag=hottest,
        desired=desired,
        ready=ready,
        offered=offered,
        consumed=consumed,
        latency_p99=_latency(folder, origin_at),
        cpu_mean=cpu_mean,
        cpu_highest=cpu_highest,
        phases=_phases(records, origin_at),
        pods=_pods(records, clock_set(records, measures.fidelity), origin_at),
        said=scaling_log(records, origin_at),
    )


def _at(record: TelemetryRecord) -> int:
    return record.at


def _origin(measures: Measures) -> tuple[int, str]:
    load = measures.load
    if load.first_spike_started_at is not None:
        return load.first_spike_started_at, "the spike"
    if load.stream_started_at is not None:
        return load.stream_started_at, "the stream's start"
    return measures.measured_from_at or 0, "the start of the measurement"


def _columns(folder: RunFolder, table: str, names: tuple[str, ...]) -> dict[str, Floats]:
    path: Path = folder.table(table)
    if not path.exists():
        return {name: np.empty(0) for name in names}
    found = pq.read_table(path, columns=list(names)).sort_by(names[0])
    return {name: found[name].to_numpy().astype(np.float64) for name in names}


def _series(columns: dict[str, Floats], name: str, origin_at: int) -> Series:
    return Series((columns["at"] - origin_at) / NANOSECONDS, columns[name])


def _read_lag(folder: RunFolder, measures: Measures) -> LagSeries | None:
    if not folder.table("lag").exists():
        return None
    return read_lag(folder, first_partitions=measures.scaling.partitions)


def _lag(lag: LagSeries | None, origin_at: int) -> tuple[Series, Series]:
    """Total and largest partition's lag; a sample with an unknown partition has neither."""
    if lag is None:
        empty = Series(np.empty(0), np.empty(0))
        return empty, empty
    seconds = (lag.at - origin_at) / NANOSECONDS
    lines = Series(seconds, lag.total), Series(seconds, lag.by_partition.max(axis=1))
    total, hottest = (_broken(line, GAP_SECONDS) for line in lines)
    return total, hottest


def _replicas(folder: RunFolder, origin_at: int) -> tuple[Series, Series]:
    rows = _columns(folder, "replicas", ("at", "spec", "ready"))
    lines = (_series(rows, name, origin_at) for name in ("spec", "ready"))
    spec, ready = (_broken(line, GAP_SECONDS) for line in lines)
    return spec, ready


def _latency(folder: RunFolder, origin_at: int) -> Series:
    """Time lag by second; a second in which no message was done has no row."""
    rows = _columns(folder, "latency", ("at", "p99_seconds"))
    return _broken(_series(rows, "p99_seconds", origin_at), 1.5 * SAMPLE_SECONDS)


def _broken(line: Series, limit_seconds: float) -> Series:
    """Return the line with a gap wherever neighbours are further apart than ``limit_seconds``.

    A failed reading has no row, and a chart joins neighbouring rows. So the first and the last
    sample that are missing become NaN.
    """
    is_gap = np.diff(line.seconds) > limit_seconds
    after = line.seconds[:-1][is_gap] + SAMPLE_SECONDS
    before = line.seconds[1:][is_gap] - SAMPLE_SECONDS
    missing = np.unique(np.round(np.concatenate([after, before]), 3))
    places = np.searchsorted(line.seconds, missing)
    return Series(np.insert(line.seconds, places, missing), np.insert(line.values, places, np.nan))


def _rates(
    folder: RunFolder, measures: Measures, lag: LagSeries | None, origin_at: int
) -> tuple[Series, Series]:
    """Offered and consumed messages per second over a sliding second of 100-ms bins.

    Where only commits show what was processed, consumed is their rate, as in the measures. It is
    missing where no offsets were read: a commit after a gap does not show when its work was done.
    """
    rows = _columns(folder, "timeline", ("at", "offered", "processed"))
    at, offered, processed = rows["at"], rows["offered"], rows["processed"]
    is_observed = measures.observation is not None  # its table has the rate of its commits
    if at.size and lag is not None and (is_observed or not knows_work(measures.accounting_level)):
        table = read_rate(folder)
        rate = table if is_observed else rate_of_commits(table, lag)
        at = rate.started_at + BIN_NS * np.arange(rate.processed.size, dtype=np.float64)
        offered = rate.offered.astype(np.float64)
        processed = np.where(bins_without_reading(rate, lag), np.nan, rate.processed)
    window = np.ones(10)

    def rate_per_second(values: Floats) -> Series:
        smooth = np.convolve(values, window, mode="same") if values.size >= window.size else values
        return Series((at - origin_at) / NANOSECONDS, smooth)

    return rate_per_second(offered), rate_per_second(processed)


def _cpu(folder: RunFolder, clocks: ClockSet, origin_at: int) -> tuple[Series, Series]:
    """CPU of the consumer pods: mean and highest, in cores."""
    found = consumer_cpu(on_recorders_clock(_records(folder, CPU_KINDS), clocks))
    seconds = (found.at - origin_at) / NANOSECONDS
    return Series(seconds, found.mean), Series(seconds, found.highest)


def _records(folder: RunFolder, kinds: tuple[str, ...]) -> list[TelemetryRecord]:
    path = folder.table("telemetry")
    if not path.exists():
        return []
    found = pq.read_table(path, columns=["at", "record"], filters=[("kind", "in", kinds)]).sort_by(
        "at"
    )
    return [decode_record(text) for text in found["record"].to_pylist()]


def _phases(records: list[TelemetryRecord], origin_at: int) -> tuple[Span, ...]:
    began: dict[str, int] = {}
    spans: list[Span] = []
    for record in records:
        if not isinstance(record, Phase):
            continue
        if record.state == "started":
            began[record.name] = record.at
        elif record.name in began:
            start = (began.pop(record.name) - origin_at) / NANOSECONDS
            spans.append(Span(record.name, start, (record.at - origin_at) / NANOSECONDS))
    return tuple(sorted(spans, key=lambda span: span.start))


def _pods(records: list[TelemetryRecord], clocks: ClockSet, origin_at: int) -> tuple[PodRow, ...]:
    owned: dict[str, list[tuple[int, int]]] = {}
    last: dict[str, PodSeen] = {}
    timelines = pod_timelines(records, clocks)
    for record in records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            owned.setdefault(record.source, []).append((record.at, len(record.owned)))
        elif isinstance(record, PodStopped):  # drawn of observed members alone
            owned.setdefault(record.source, []).append((record.at, 0))
        elif isinstance(record, PodSeen):
            last[record.pod] = record
            owned.setdefault(record.pod, [])
    rows = [
        _pod_row(pod, steps, timelines.get(pod), last.get(pod), origin_at)
        for pod, steps in owned.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.created is None, row.created or 0.0, row.pod)))


def _pod_row(
    pod: str,
    steps: list[tuple[int, int]],
    timeline: PodTimeline | None,
    seen: PodSeen | None,
    origin_at: int,
) -> PodRow:
    def since(at: int | None) -> float | None:
        return None if at is None else (at - origin_at) / NANOSECONDS

    gone = (timeline.gone_at if timeline else None) or (seen.deleted_at if seen else None)
    if gone is not None:  # a removed pod holds nothing
        steps = [*[step for step in steps if step[0] <= gone], (gone, 0)]
    return PodRow(
        pod=pod,
        seconds=np.array([(at - origin_at) / NANOSECONDS for at, _ in steps]),
        partitions=np.array([count for _, count in steps], dtype=np.float64),
        created=since(timeline.created_at if timeline else None),
        ready=since(timeline.ready_at if timeline else None),
        gone=since(gone),
    )
