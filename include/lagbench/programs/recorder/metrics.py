"""Export the recorder's newest readings for Prometheus.

The run's record is the telemetry topic; these series are for watching. A value that was not read in
time has no series: missing is not zero. The run's id and the namespace are labels of the scraped
pod.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from lagbench.core.kubernetes import parse_milli
from lagbench.core.policy import lowest_target_records
from lagbench.core.telemetry import (
    ConsumerProgress,
    GroupSample,
    HpaSample,
    LagSample,
    LoadStep,
    PodStarted,
    ProducerProgress,
    ReplicaSample,
    ScaledObjectSample,
    UsageSample,
)
from lagbench.programs.recorder.exposed_lag import exposed_lag
from lagbench.programs.recorder.newest_readings import NewestReadings

Row = tuple[Sequence[str], float | None]
"""Label values and a value; None is unknown and makes no series."""


class Exposition:
    """The newest readings in Prometheus' text format."""

    def __init__(
        self,
        newest: NewestReadings,
        *,
        aliases: Callable[[int], Iterable[Metric]] | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """Show ``newest`` as it is at each scrape; ``now`` is in unix nanoseconds.

        ``aliases`` gives further families of an instant (``recorder/metric_aliases.py``).
        """
        self._newest = newest
        self._aliases = aliases
        self._now = now
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def __call__(self) -> tuple[int, bytes]:
        """Answer a scrape."""
        return 200, generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield every family; one of which nothing is known has no series."""
        now = self._now()
        yield from self._lag(now)
        yield from self._replicas(now)
        yield from self._hpas(now)
        yield from self._group(now)
        yield from self._load(now)
        yield from self._consumers(now)
        yield from self._bench(now)
        if self._aliases is not None:
            yield from self._aliases(now)

    def _lag(self, now: int) -> Iterator[Metric]:
        totals: list[Row] = []
        lags: list[Row] = []
        ends: list[Row] = []
        commits: list[Row] = []
        for sample in self._newest.samples(LagSample, now=now):
            lag = exposed_lag(sample)
            if lag is None:
                continue
            totals.append(([], lag.total))
            lags += [([str(partition)], value) for partition, value in lag.by_partition]
            ends += [([str(row[0])], row[1]) for row in sample.partitions]
            commits += [([str(row[0])], row[2]) for row in sample.partitions]
        yield _gauge("lag_records", "Total lag; missing while a partition's lag is unknown", totals)
        by = ("partition",)
        yield _gauge("partition_lag_records", "End offset minus committed offset", lags, by)
        yield _gauge("partition_end_offset", "Offset of the next record to come", ends, by)
        yield _gauge("partition_committed_offset", "Next offset to read, if any", commits, by)

    def _replicas(self, now: int) -> Iterator[Metric]:
        rows: list[Row] = [
            ([state], count)
            for sample in self._newest.samples(ReplicaSample, now=now)
            for state, count in (
                ("wanted", sample.spec),
                ("existing", sample.current),
                ("ready", sample.ready),
            )
        ]
        yield _gauge("replicas", "Replicas of the consumers' workload", rows, ("state",))

    def _hpas(self, now: int) -> Iterator[Metric]:
        hpas = self._newest.samples(HpaSample, now=now)
        desired: list[Row] = [([hpa.name], hpa.desired) for hpa in hpas]
        yield _gauge("hpa_desired_replicas", "The HPA's last decision", desired, ("hpa",))
        by = ("hpa", "metric", "type")
        values = [row for hpa in hpas for row in _metric_rows(hpa.name, hpa.metrics)]
        yield _gauge("hpa_metric", "The HPA's last reading, by type of value", values, by)
        targets = [row for hpa in hpas for row in _metric_rows(hpa.name, hpa.targets)]
        yield _gauge("hpa_metric_target", "The target of that reading", targets, by)
        ceilings: list[Row] = [([hpa.name], hpa.max_replicas) for hpa in hpas]
        yield _gauge("hpa_max_replicas", "Most replicas that the HPA may set", ceilings, ("hpa",))
        labels = ("hpa", "condition")
        yield _gauge("hpa_condition", "1 true, 0 false", _condition_rows(hpas), labels)
        scaled = self._newest.samples(ScaledObjectSample, now=now)
        labels = ("scaled_object", "condition")
        text = "1 true, 0 false; of the ScaledObject"
        yield _gauge("scaled_object_condition", text, _condition_rows(scaled), labels)
        text = "Total lag above which the HPA wants more than the wanted replicas"
        due: list[Row] = [
            ([policy.name], _scales_above(policy, replicas.spec))
            for replicas in self._newest.samples(ReplicaSample, now=now)
            for policy in scaled
        ]
        yield _gauge("scales_above_records", text, due, ("scaled_object",))

    def _group(self, now: int) -> Iterator[Metric]:
        groups = self._newest.samples(GroupSample, now=now)
        members: list[Row] = [([], group.members) for group in groups]
        yield _gauge("group_members", "Members of the consumer group", members)
        idle: list[Row] = [([], group.members_without_partitions) for group in groups]
        yield _gauge("group_idle_members", "Members without a partition", idle)
        states: list[Row] = [([group.state], 1) for group in groups]
        yield _gauge(
            "group_state", "The group's state, as the broker reports it", states, ("state",)
        )

    def _load(self, now: int) -> Iterator[Metric]:
        phases: list[Row] = [([phase.name], 1) for phase in self._newest.phases()]
        yield _gauge("phase", "Current phases of the run", phases, ("phase",))
        steps: list[Row] = [([s.step], s.rate_after) for s in self._newest.facts(LoadStep)]
        yield _gauge("load_planned_rate", "Events per second since the last step", steps, ("step",))
        events: list[Row] = []
        late: list[Row] = []
        for load in self._newest.reports(ProducerProgress, now=now):
            events += [
                (["planned"], load.planned),
                (["sent"], load.sent),
                (["acked"], load.acked),
                (["failed"], load.failed),
            ]
            late += [
                (["0.5"], _seconds(load.lateness_p50_ms)),
                (["0.99"], _seconds(load.lateness_p99_ms)),
                (["1"], _seconds(load.lateness_max_ms)),
            ]
        yield _counter("load_events", "Events of the producer, by stage", events, ("stage",))
        yield _gauge(
            "load_lateness_seconds", "Sent after planned, last second", late, ("quantile",)
        )

    def _consumers(self, now: int) -> Iterator[Metric]:
        by = ("consumer",)
        pods = self._newest.reports(ConsumerProgress, now=now)
        cpu: list[Row] = [([pod.source], pod.cpu_seconds) for pod in pods]
        yield _counter("consumer_cpu_seconds", "CPU time of each consumer", cpu, by)
        done: list[Row] = [([pod.source], pod.processed_total) for pod in pods]
        yield _counter("consumer_processed_records", "Records processed by each", done, by)
        queued: list[Row] = [([pod.source], pod.queued) for pod in pods]
        yield _gauge("consumer_queued_records", "Fetched and not begun", queued, by)
        running = {pod.source for pod in pods}
        slots: list[Row] = [
            ([pod.source], pod.concurrency)
            for pod in self._newest.facts(PodStarted)
            if pod.source in running
        ]
        yield _gauge("consumer_concurrency", "Writes that may be in flight", slots, by)

    def _bench(self, now: int) -> Iterator[Metric]:
        by = ("component",)
        parts = self._newest.samples(UsageSample, now=now)
        cpu: list[Row] = [([part.component], part.cpu_seconds) for part in parts]
        yield _counter("component_cpu_seconds", "CPU time of the bench's own parts", cpu, by)
        memory: list[Row] = [([part.component], part.memory_bytes) for part in parts]
        yield _gauge("component_memory_bytes", "Memory of the bench's own parts", memory, by)
        gaps: list[Row] = [([what], count) for what, count in self._newest.gaps().items()]
        yield _counter("recorder_gaps", "Readings that failed", gaps, ("what",))


def _gauge(name: str, text: str, rows: Iterable[Row], labels: Sequence[str] = ()) -> Metric:
    family = GaugeMetricFamily(f"lagbench_{name}", text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


def _counter(name: str, text: str, rows: Iterable[Row], labels: Sequence[str]) -> Metric:
    family = CounterMetricFamily(f"lagbench_{name}", text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family


def _condition_rows(samples: Iterable[HpaSample | ScaledObjectSample]) -> Iterator[Row]:
    """Yield every condition that is true or false; Unknown has no row."""
    for sample in samples:
        for text in sample.conditions:
            name, _, status = text.split(" ")[0].partition("=")
            yield [sample.name, name], {"True": 1, "False": 0}.get(status)


def _scales_above(policy: ScaledObjectSample, replicas: int) -> float | None:
    """Return the lag above target and tolerance; None: no number of records decides."""
    target = lowest_target_records(policy.scales_at_records, policy.group_target_records, replicas)
    return None if target is None else target * (1 + (policy.tolerance or 0.0))


def _metric_rows(hpa: str, texts: Iterable[str]) -> Iterator[Row]:
    """Yield the values of "name: averageValue 250, value 2k"; "name: unknown" has none."""
    for text in texts:
        name, _, values = text.rpartition(": ")
        for each in values.split(", "):
            kind, _, quantity = each.partition(" ")
            if quantity:
                yield [hpa, name, kind], parse_milli(quantity, where=hpa, field=name) / 1000


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
