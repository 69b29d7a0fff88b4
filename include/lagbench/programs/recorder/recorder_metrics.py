"""Export the recorder's newest readings for Prometheus.

The run's record is the telemetry topic; these series are for watching. A value that was not read in
time has no series: missing is not zero. The run's id and the namespace are labels of the scraped
pod.

Where it is asked for, the readings also have the names and labels of kafka_exporter (lag, offsets,
members) and of kube-state-metrics (the HPA, the workload), which existing PromQL uses. If these
exporters also run, a series of the same name would be counted twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from lagbench.core.kubernetes_values import parse_milli
from lagbench.core.policy.policy_limits import lowest_target_records
from lagbench.core.telemetry.records_of_programs import (
    ConsumerProgress,
    LoadStep,
    PodStarted,
    ProducerProgress,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupSample,
    HpaSample,
    LagSample,
    ReplicaSample,
    ScaledObjectSample,
    UsageSample,
)
from lagbench.programs.recorder.kafka_readings import NewestReadings, exposed_lag

if TYPE_CHECKING:
    from lagbench.programs.recorder.sources import RecorderOptions

Row = tuple[Sequence[Any], float | None]
"""Label values and a value; None is unknown and makes no series."""


class Family(NamedTuple):
    """The series of one name; ``labels`` are separated by blanks."""

    name: str
    text: str
    labels: str
    rows: Iterable[Row]
    is_counter: bool = False

    def metric(self) -> Metric:
        """Return the series that are known."""
        kind = CounterMetricFamily if self.is_counter else GaugeMetricFamily
        found = kind(self.name, self.text, labels=self.labels.split())
        for values, value in self.rows:
            if value is not None:
                found.add_metric([str(one) for one in values], value)
        return found


class Exposition:
    """The newest readings in Prometheus' text format."""

    def __init__(
        self,
        newest: NewestReadings,
        *,
        aliases: RecorderOptions | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """Show ``newest`` as it is at each scrape; with ``aliases`` also by other names."""
        self._newest, self._aliases, self._now = newest, aliases, now
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def __call__(self) -> tuple[int, bytes]:
        """Answer a scrape."""
        return 200, generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield every family; one of which nothing is known has no series."""
        newest, now = self._newest, self._now()
        for make in (_lag, _scaling, _group_and_load, _consumers_and_bench):
            for family in make(newest, now):
                yield family._replace(name=f"lagbench_{family.name}").metric()
        if self._aliases is not None:
            for make_alias in (_of_kafka_exporter, _of_kube_state_metrics):
                yield from (one.metric() for one in make_alias(newest, now, self._aliases))


def _lag(newest: NewestReadings, now: int) -> Iterator[Family]:
    totals, lags, ends, commits = _lag_rows(newest, now)
    text = "Total lag; missing while a partition's lag is unknown"
    yield Family("lag_records", text, "", totals)
    yield Family("partition_lag_records", "End offset minus committed offset", "partition", lags)
    yield Family("partition_end_offset", "Offset of the next record to come", "partition", ends)
    text = "Next offset to read, if any"
    yield Family("partition_committed_offset", text, "partition", commits)


def _lag_rows(newest: NewestReadings, now: int) -> tuple[list[Row], ...]:
    """Return total, lag, end and commit of each partition of the newest sample."""
    for sample in newest.samples(LagSample, now=now):
        if (lag := exposed_lag(sample)) is not None:
            by_partition: list[Row] = [([number], value) for number, value in lag.by_partition]
            ends: list[Row] = [([number], end) for number, end, _ in sample.partitions]
            commits: list[Row] = [([number], at) for number, _, at in sample.partitions]
            return [([], lag.total)], by_partition, ends, commits
    return [], [], [], []


def _scaling(newest: NewestReadings, now: int) -> Iterator[Family]:
    states = (("wanted", "spec"), ("existing", "current"), ("ready", "ready"))
    replicas = newest.samples(ReplicaSample, now=now)
    rows: list[Row] = [([name], getattr(one, of)) for one in replicas for name, of in states]
    yield Family("replicas", "Replicas of the consumers' workload", "state", rows)
    hpas = newest.samples(HpaSample, now=now)
    desired: list[Row] = [([hpa.name], hpa.desired) for hpa in hpas]
    yield Family("hpa_desired_replicas", "The HPA's last decision", "hpa", desired)
    for name, text, field in (
        ("hpa_metric", "The HPA's last reading, by type of value", "metrics"),
        ("hpa_metric_target", "The target of that reading", "targets"),
    ):
        found = [row for hpa in hpas for row in _metric_rows(hpa.name, getattr(hpa, field))]
        yield Family(name, text, "hpa metric type", found)
    ceilings: list[Row] = [([hpa.name], hpa.max_replicas) for hpa in hpas]
    yield Family("hpa_max_replicas", "Most replicas that the HPA may set", "hpa", ceilings)
    scaled = newest.samples(ScaledObjectSample, now=now)
    yield Family("hpa_condition", "1 true, 0 false", "hpa condition", _known_conditions(hpas))
    text, labels = "1 true, 0 false; of the ScaledObject", "scaled_object condition"
    yield Family("scaled_object_condition", text, labels, _known_conditions(scaled))
    text = "Total lag above which the HPA wants more than the wanted replicas"
    due: list[Row] = [
        ([policy.name], _scales_above(policy, one.spec)) for one in replicas for policy in scaled
    ]
    yield Family("scales_above_records", text, "scaled_object", due)


def _group_and_load(newest: NewestReadings, now: int) -> Iterator[Family]:
    groups = newest.samples(GroupSample, now=now)
    members: list[Row] = [([], group.members) for group in groups]
    yield Family("group_members", "Members of the consumer group", "", members)
    idle: list[Row] = [([], group.members_without_partitions) for group in groups]
    yield Family("group_idle_members", "Members without a partition", "", idle)
    states: list[Row] = [([group.state], 1) for group in groups]
    yield Family("group_state", "The group's state, as the broker reports it", "state", states)
    phases: list[Row] = [([phase.name], 1) for phase in newest.phases()]
    yield Family("phase", "Current phases of the run", "phase", phases)
    steps: list[Row] = [([one.step], one.rate_after) for one in newest.facts(LoadStep)]
    yield Family("load_planned_rate", "Events per second since the last step", "step", steps)
    loads = newest.reports(ProducerProgress, now=now)
    stages = ("planned", "sent", "acked", "failed")
    events: list[Row] = [([stage], getattr(load, stage)) for load in loads for stage in stages]
    yield Family("load_events", "Events of the producer, by stage", "stage", events, True)
    quantiles = {"0.5": "lateness_p50_ms", "0.99": "lateness_p99_ms", "1": "lateness_max_ms"}
    late: list[Row] = [
        ([name], ms / 1000)
        for load in loads
        for name, field in quantiles.items()
        if (ms := getattr(load, field)) is not None
    ]
    yield Family("load_lateness_seconds", "Sent after planned, last second", "quantile", late)


def _consumers_and_bench(newest: NewestReadings, now: int) -> Iterator[Family]:
    pods = newest.reports(ConsumerProgress, now=now)
    for name, text, field, is_counter in (
        ("consumer_cpu_seconds", "CPU time of each consumer", "cpu_seconds", True),
        ("consumer_processed_records", "Records processed by each", "processed_total", True),
        ("consumer_queued_records", "Fetched and not begun", "queued", False),
    ):
        rows: list[Row] = [([pod.source], getattr(pod, field)) for pod in pods]
        yield Family(name, text, "consumer", rows, is_counter)
    running = {pod.source for pod in pods}
    started = (one for one in newest.facts(PodStarted) if one.source in running)
    slots: list[Row] = [([pod.source], pod.concurrency) for pod in started]
    yield Family("consumer_concurrency", "Writes that may be in flight", "consumer", slots)
    parts = newest.samples(UsageSample, now=now)
    cpu: list[Row] = [([part.component], part.cpu_seconds) for part in parts]
    text = "CPU time of the bench's own parts"
    yield Family("component_cpu_seconds", text, "component", cpu, True)
    memory: list[Row] = [([part.component], part.memory_bytes) for part in parts]
    yield Family("component_memory_bytes", "Memory of the bench's own parts", "component", memory)
    gaps: list[Row] = [([what], count) for what, count in newest.gaps().items()]
    yield Family("recorder_gaps", "Readings that failed", "what", gaps, True)


def _of_kafka_exporter(newest: NewestReadings, now: int, run: RecorderOptions) -> Iterator[Family]:
    """Yield its families; it would export -1 for a lag without a commit, which is missing here."""

    def of(*before: str, rows: Iterable[Row]) -> list[Row]:
        return [((*before, *values), value) for values, value in rows]

    group, topic, (totals, lags, ends, commits) = run.group, run.topic, _lag_rows(newest, now)
    members: list[Row] = [((), one.members) for one in newest.samples(GroupSample, now=now)]
    for name, text, labels, rows in (
        ("lag", "Lag by partition", " topic partition", of(group, topic, rows=lags)),
        ("lag_sum", "Lag of all partitions", " topic", of(group, topic, rows=totals)),
        ("current_offset", "Committed offset", " topic partition", of(group, topic, rows=commits)),
        ("members", "Members of the group", "", of(group, rows=members)),
    ):
        yield Family(f"kafka_consumergroup_{name}", text, f"consumergroup{labels}", rows)
    name = "kafka_topic_partition_current_offset"
    yield Family(name, "End offset", "topic partition", of(topic, rows=ends))


def _of_kube_state_metrics(
    newest: NewestReadings, now: int, run: RecorderOptions
) -> Iterator[Family]:
    """Yield its families, and those of ScaledObjects as docs/monitoring.md configures them.

    Only a Deployment's wanted replicas have ``spec`` in the name.
    """
    hpas, scaled = newest.samples(HpaSample, now=now), newest.samples(ScaledObjectSample, now=now)
    hpa_labels, hpa_prefix = "namespace horizontalpodautoscaler", "kube_horizontalpodautoscaler"
    for name, text, field in (
        ("status_desired_replicas", "Replicas that the HPA last decided", "desired"),
        ("status_current_replicas", "Replicas that the HPA last saw", "current"),
        ("spec_min_replicas", "Fewest replicas that the HPA may set", "min_replicas"),
        ("spec_max_replicas", "Most replicas that the HPA may set", "max_replicas"),
    ):
        rows: list[Row] = [((run.namespace, hpa.name), getattr(hpa, field)) for hpa in hpas]
        yield Family(f"{hpa_prefix}_{name}", text, hpa_labels, rows)
    text = "1 for the status that the condition has"
    for name, labels, samples, statuses in (
        (f"{hpa_prefix}_status_condition", hpa_labels, hpas, ("true", "false", "unknown")),
        (
            "kube_customresource_scaledobject_status_condition",
            "namespace scaledobject",
            scaled,
            ("True", "False", "Unknown"),
        ),
    ):
        conditions: list[Row] = [
            ((run.namespace, sample.name, condition, each), each.lower() == status.lower())
            for sample in samples
            for condition, status in _conditions(sample)
            for each in statuses
        ]
        yield Family(name, text, f"{labels} condition status", conditions)
    kind = run.workload.lower()
    for name, text, field in (
        ("spec_replicas" if kind == "deployment" else "replicas", "Wanted replicas", "spec"),
        ("status_replicas", "Existing replicas", "current"),
        ("status_replicas_ready", "Ready replicas", "ready"),
        ("status_replicas_available", "Available replicas", "available"),
    ):
        counts: list[Row] = [
            ((run.namespace, run.deployment), getattr(sample, field))
            for sample in newest.samples(ReplicaSample, now=now)
        ]
        yield Family(f"kube_{kind}_{name}", text, f"namespace {kind}", counts)


def _conditions(sample: HpaSample | ScaledObjectSample) -> Iterator[tuple[str, str]]:
    """Yield name and status of each condition."""
    for text in sample.conditions:
        name, _, status = text.split(" ")[0].partition("=")
        yield name, status


def _known_conditions(samples: Iterable[HpaSample | ScaledObjectSample]) -> Iterator[Row]:
    """Yield every condition that is true or false; Unknown has no row."""
    for sample in samples:
        for name, status in _conditions(sample):
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
