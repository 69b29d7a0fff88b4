"""The data of the page's figures: series and events, read from a run folder's tables alone.

Instants are seconds since ``origin_at`` (the first spike, else the stream's start), on the
recorder's clock as in the measures. A missing table gives an empty series: the page draws the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.clocks import ClockSet, clock_set, on_recorders_clock
from lagbench.core.live.run_state import EVENTS
from lagbench.core.measures.evidence.lag_readings import BIN_NS, GAP_SECONDS, LagSeries
from lagbench.core.measures.evidence.observed_group import observed_members
from lagbench.core.measures.evidence.pod_timeline import by_life, pod_timelines
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.partition_work import bins_without_reading, rate_of_commits
from lagbench.core.measures.pod_use import consumer_cpu
from lagbench.core.scenario.consumer_kinds import knows_work
from lagbench.core.telemetry.records import TelemetryRecord, decode_record
from lagbench.core.telemetry.records_of_programs import (
    PartitionsAssigned,
    PartitionsRevoked,
    Phase,
    PodStopped,
)
from lagbench.core.telemetry.records_of_recorder import HpaSample, KubeEvent, PodSeen
from lagbench.report.read_against import causes, has_cpu_to_show, limits, pod_rate, predicted_course
from lagbench.results.run_tables import read_lag, read_rate

Floats = npt.NDArray[np.float64]
Event = Mapping[str, Any]
_DRAWN_KINDS = (
    "phase",
    "partitions_assigned",
    "partitions_revoked",
    "pod_seen",
    "pods_listed",
    "clock_offset",
    "kube_event",
    "hpa_sample",
    "hpa_sync",
)
_MEMBER_KINDS = ("group_sample", "group_members", "pod_seen")
_SAMPLE_SECONDS = 1.0
"""From one reading to the next, and from one bin of the time lag to the next."""
_DIGITS = 4
"""Decimals of a value; a CPU of 0.1 % of a core is still seen."""
_IN_A_SCRIPT = str.maketrans(
    {
        "<": "\\u003c",  # no name can end the script element
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line: seconds since the origin and values; NaN is a gap and is drawn as one."""

    seconds: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class PodRow:
    """The partitions of a pod over time (a step series), until it has ended."""

    pod: str
    held: Series
    gone: float | None = None


@dataclass(frozen=True, slots=True)
class SaidRow:
    """A word of the autoscaler: a Kubernetes event, or changed conditions of an HPA."""

    seconds: float
    about: str
    reason: str
    message: str
    count: int = 1
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class RunSeries:
    """``lines`` by panel and name; those of a panel share their instants."""

    origin_at: int
    origin_name: str
    lines: Mapping[str, Mapping[str, Series]]
    phases: tuple[Event, ...] = ()
    pods: tuple[PodRow, ...] = ()
    said: tuple[SaidRow, ...] = ()
    causes: tuple[str, ...] = ()  # of each change of the replicas
    limits: tuple[Event, ...] = ()
    pod_rate: float | None = None
    shifts: Mapping[str, int] = field(default_factory=dict)  # ns that clocks are ahead, by the pod
    producer_shift: int = 0


def read_series(folder: RunFolder, measures: Measures) -> RunSeries:
    """Read the tables of ``folder``; missing tables give empty series."""
    load = measures.load
    origin_at, origin_name = load.origin_at, "the spike"
    if origin_at is None:
        origin_at, origin_name = measures.measured_from_at or 0, "the start of the measurement"
    elif load.first_spike_started_at is None:
        origin_name = "the stream's start"
    stamped, started = _records(folder, _DRAWN_KINDS), _records(folder, ("stream_started",))
    clocks = clock_set(stamped, measures.fidelity)
    drawn = on_recorders_clock(stamped, clocks)
    if measures.observation is not None:
        members = observed_members(_records(folder, _MEMBER_KINDS))
        drawn = sorted([*drawn, *members], key=lambda record: record.at)
    records = by_life(drawn)
    return RunSeries(
        origin_at=origin_at,
        origin_name=origin_name,
        lines=_lines(folder, measures, clocks, origin_at),
        phases=tuple(sorted(_phases(records, origin_at), key=lambda phase: phase["start"])),
        pods=_pods(records, clock_set(records, measures.fidelity), origin_at),
        said=tuple(sorted(said(records, origin_at), key=lambda row: row.seconds)),
        causes=causes(folder, measures, records),
        limits=tuple(limits(folder)),
        pod_rate=pod_rate(folder, measures),
        shifts=clocks.shifts,
        producer_shift=clocks.shifts.get(started[0].source, 0) if started else 0,
    )


def _lines(
    folder: RunFolder, measures: Measures, clocks: ClockSet, origin_at: int
) -> dict[str, dict[str, Series]]:
    """Return the lines of each panel, and those of the prediction."""

    def line(at: npt.NDArray[Any], values: npt.NDArray[Any]) -> Series:
        return Series((at - origin_at) / NANOSECONDS, values)

    lag, total, hottest = None, line(np.empty(0), np.empty(0)), line(np.empty(0), np.empty(0))
    if folder.table("lag").exists():  # a sample with an unknown partition has neither
        lag = read_lag(folder, first_partitions=measures.scaling.partitions)
        total, hottest = line(lag.at, lag.total), line(lag.at, lag.by_partition.max(axis=1))
    replicas = _columns(folder, "replicas", ("at", "spec", "ready"))
    latency = _columns(folder, "latency", ("at", "p99_seconds"))
    offered, consumed = _rates(folder, measures, lag)
    cpu = consumer_cpu(on_recorders_clock(_records(folder, ("consumer_progress",)), clocks))
    lines = {
        "lag": {"total": _broken(total), "hottest": _broken(hottest)},
        "replicas": {
            "desired": _broken(line(replicas["at"], replicas["spec"])),
            "ready": _broken(line(replicas["at"], replicas["ready"])),
        },
        "rates": {"offered": line(*offered), "consumed": line(*consumed)},
        # A second in which no message was done has no row.
        "latency": {"p99": _broken(line(latency["at"], latency["p99_seconds"]), 1.5)},
    }
    if has_cpu_to_show(folder, cpu.highest):
        lines["cpu"] = {"mean": line(cpu.at, cpu.mean), "highest": line(cpu.at, cpu.highest)}
    predicted = predicted_course(folder, measures.load.stream_started_at)
    if predicted is not None:
        at, records, pods = predicted
        lines["predicted"] = {"lag": line(at, records), "replicas": line(at, pods)}
    return lines


def _columns(folder: RunFolder, table: str, names: tuple[str, ...]) -> dict[str, Floats]:
    path = folder.table(table)
    if not path.exists():
        return {name: np.empty(0) for name in names}
    found = pq.read_table(path, columns=list(names)).sort_by(names[0])
    return {name: found[name].to_numpy().astype(np.float64) for name in names}


def _broken(line: Series, limit_seconds: float = GAP_SECONDS) -> Series:
    """Return the line with a gap wherever neighbours are further apart than ``limit_seconds``.

    A failed reading has no row, and a chart joins neighbouring rows. So the first and the last
    sample that are missing become NaN.
    """
    is_gap = np.diff(line.seconds) > limit_seconds
    after = line.seconds[:-1][is_gap] + _SAMPLE_SECONDS
    before = line.seconds[1:][is_gap] - _SAMPLE_SECONDS
    missing = np.unique(np.round(np.concatenate([after, before]), 3))
    places = np.searchsorted(line.seconds, missing)
    return Series(np.insert(line.seconds, places, missing), np.insert(line.values, places, np.nan))


def _rates(
    folder: RunFolder, measures: Measures, lag: LagSeries | None
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Return instants and rates, offered and consumed, over a sliding second of 100-ms bins.

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

    def smooth(values: Floats) -> Floats:
        return np.convolve(values, np.ones(10), mode="same") if values.size >= 10 else values

    return (at, smooth(offered)), (at, smooth(processed))


def _records(folder: RunFolder, kinds: tuple[str, ...]) -> list[TelemetryRecord]:
    path = folder.table("telemetry")
    if not path.exists():
        return []
    found = pq.read_table(path, columns=["at", "record"], filters=[("kind", "in", kinds)])
    return [decode_record(text) for text in found.sort_by("at")["record"].to_pylist()]


def _phases(records: Iterable[TelemetryRecord], origin_at: int) -> Iterator[Event]:
    for record in records:
        if isinstance(record, Phase) and record.name in EVENTS:
            state, text = EVENTS[record.name]
            if record.state == state:
                at = _milliseconds(record.at, origin_at)
                yield {"name": text, "start": at, "end": at}


def _pods(
    records: Iterable[TelemetryRecord], clocks: ClockSet, origin_at: int
) -> tuple[PodRow, ...]:
    records = list(records)
    steps: dict[str, list[tuple[int, int]]] = {}
    last: dict[str, PodSeen] = {}
    for record in records:
        if isinstance(record, PartitionsAssigned | PartitionsRevoked):
            steps.setdefault(record.source, []).append((record.at, len(record.owned)))
        elif isinstance(record, PodStopped):  # drawn of observed members alone
            steps.setdefault(record.source, []).append((record.at, 0))
        elif isinstance(record, PodSeen):
            last[record.pod] = record
            steps.setdefault(record.pod, [])
    timelines = pod_timelines(records, clocks)
    rows = []
    for pod, found in steps.items():
        timeline, seen = timelines.get(pod), last.get(pod)
        gone_at = (timeline.gone_at if timeline else None) or (seen.deleted_at if seen else None)
        held = [step for step in found if gone_at is None or step[0] <= gone_at]
        if gone_at is not None:  # a removed pod holds nothing
            held.append((gone_at, 0))
        at, counts = np.array(held or np.empty((0, 2)), dtype=np.float64).T
        gone = None if gone_at is None else (gone_at - origin_at) / NANOSECONDS
        row = PodRow(pod, Series((at - origin_at) / NANOSECONDS, counts), gone)
        created_at = timeline.created_at if timeline else None
        rows.append((created_at is None, created_at or 0, pod, row))
    return tuple(row for *_, row in sorted(rows, key=lambda row: row[:3]))


def said(records: Iterable[TelemetryRecord], origin_at: int) -> Iterator[SaidRow]:
    """Return what the autoscaler said; ``records``: ascending by ``at``."""
    reported: dict[str, set[str]] = {}
    for record in records:
        seconds = (record.at - origin_at) / NANOSECONDS
        if isinstance(record, KubeEvent):
            about, is_warning = (
                f"{record.object_kind}/{record.object_name}",
                record.type == "Warning" and not _is_usual(record),
            )
            yield SaidRow(seconds, about, record.reason, record.message, record.count, is_warning)
        elif isinstance(record, HpaSample):
            changed = sorted({*record.conditions} - reported.get(record.name, set()))
            reported[record.name] = {*record.conditions}
            if changed:
                about = f"HorizontalPodAutoscaler/{record.name}"
                yield SaidRow(seconds, about, "conditions", ", ".join(changed))


def _is_usual(event: KubeEvent) -> bool:
    """Return whether every run has such a warning: until a pod is Ready, and at the end."""
    return event.reason == "ScaledObjectDeleted" or (
        event.reason == "Unhealthy" and event.message.startswith(("Readiness", "Startup"))
    )


def data_block(series: RunSeries, measures: Measures) -> str:
    """Return series and events as JSON for ``scripts``, which may be in a ``<script>`` element.

    Instants are milliseconds. Those of samples are coded by difference: the first is absolute.
    """
    block = {
        "origin": {"name": series.origin_name},
        "tables": {
            name: {
                "ms": _differences(next(iter(lines.values()))),
                "columns": {column: _values(line) for column, line in lines.items()},
            }
            for name, lines in series.lines.items()
        },
        "pods": [
            {
                "pod": pod.pod,
                "ms": _differences(pod.held),
                "partitions": _values(pod.held),
                "gone": None if pod.gone is None else round(pod.gone * 1000),
            }
            for pod in series.pods
            if pod.held.seconds.size
        ],
        "events": {"phases": series.phases, **_events(measures, series)},
        "limits": series.limits,
        "podRate": series.pod_rate,
    }
    return in_a_script(block)


def in_a_script(block: Mapping[str, Any]) -> str:
    """Return JSON that no text in it can end."""
    text = json.dumps(block, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_A_SCRIPT)


def _differences(line: Series) -> list[int]:
    whole = np.rint(line.seconds * 1000).astype(np.int64)
    return [] if whole.size == 0 else [int(whole[0]), *np.diff(whole).tolist()]


def _values(line: Series) -> list[float | None]:
    """Return values as JSON can hold them shortest; not finite: it was not measured."""
    return [
        None if not math.isfinite(v) else int(v) if v.is_integer() else round(v, _DIGITS)
        for v in line.values.tolist()
    ]


def _milliseconds(at: int | None, origin_at: int) -> int | None:
    return None if at is None else round((at - origin_at) * 1000 / NANOSECONDS)


def _events(measures: Measures, series: RunSeries) -> dict[str, list[Event]]:
    """Return the events by kind; an end that is null was not seen: it lasts to the chart's edge."""
    origin_at = series.origin_at

    def span(event: Any, **names: Any) -> Event:
        start, end = (_milliseconds(at, origin_at) for at in (event.started_at, event.ended_at))
        return {**names, "start": start, "end": end}

    spikes, actions = measures.load.spike_windows, measures.actions
    names = ["spike"] if len(spikes) == 1 else [f"spike {n + 1}" for n in range(len(spikes))]
    return {
        "spikes": [span(spike, name=name) for spike, name in zip(spikes, names, strict=True)],
        "actions": [
            span(action, name=action.kind.replace("_", " "))
            for action in actions
            if action.started_at is not None
        ],
        "episodes": [span(each, trigger=each.trigger) for each in measures.rebalances.episodes],
        "changes": [
            {
                "at": _milliseconds(change.at, origin_at),
                "before": change.replicas_before,
                "after": change.replicas_after,
                "cause": cause,
            }
            for change, cause in zip(measures.scaling.changes, series.causes, strict=True)
        ],
    }
