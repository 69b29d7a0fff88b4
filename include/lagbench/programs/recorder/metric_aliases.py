"""Export the recorder's readings under the names that existing PromQL uses.

Those are names and labels of kafka_exporter (lag, offsets and members of the group) and of
kube-state-metrics (the HPA and the workload). As with the recorder's own series, a value that was
not read in time or is not known has no series: kafka_exporter would export -1 for a lag without a
commit.

If these exporters also run, a series of the same name would be counted twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily, Metric

from lagbench.core.scenario import Workload
from lagbench.core.telemetry import (
    GroupSample,
    HpaSample,
    LagSample,
    ReplicaSample,
    ScaledObjectSample,
)
from lagbench.programs.recorder.exposed_lag import exposed_lag
from lagbench.programs.recorder.newest_readings import NewestReadings

_OF_GROUP = ("consumergroup", "topic")
_OF_PARTITION = ("consumergroup", "topic", "partition")
_OF_HPA = ("namespace", "horizontalpodautoscaler")
_OF_SCALED_OBJECT = ("namespace", "scaledobject")
_STATUSES = ("True", "False", "Unknown")

Row = tuple[Sequence[str], float | None]


@dataclass(frozen=True, slots=True)
class ObservedNames:
    """The run's values for the labels of the exporters."""

    group: str
    topic: str
    namespace: str
    deployment: str
    workload: Workload = "Deployment"


class MetricAliases:
    """The newest readings as families of the two exporters."""

    def __init__(self, newest: NewestReadings, names: ObservedNames) -> None:
        """Show ``newest`` with ``names`` in the labels."""
        self._newest = newest
        self._names = names

    def __call__(self, now: int) -> Iterator[Metric]:
        """Yield every family as it is at ``now`` (unix ns)."""
        yield from self._kafka(now)
        yield from self._hpas(now)
        yield from self._scaled_objects(now)
        yield from self._replicas(now)

    def _kafka(self, now: int) -> Iterator[Metric]:
        of_group = (self._names.group, self._names.topic)
        sums: list[Row] = []
        lags: list[Row] = []
        ends: list[Row] = []
        commits: list[Row] = []
        for sample in self._newest.samples(LagSample, now=now):
            lag = exposed_lag(sample)
            if lag is None:
                continue
            sums.append((of_group, lag.total))
            lags += [((*of_group, str(part)), value) for part, value in lag.by_partition]
            ends += [((self._names.topic, str(part)), end) for part, end, _ in sample.partitions]
            commits += [((*of_group, str(part)), at) for part, _, at in sample.partitions]
        members: list[Row] = [
            ((self._names.group,), sample.members)
            for sample in self._newest.samples(GroupSample, now=now)
        ]
        group = "kafka_consumergroup"
        yield _gauge(f"{group}_lag", "Lag by partition", _OF_PARTITION, lags)
        yield _gauge(f"{group}_lag_sum", "Lag of all partitions", _OF_GROUP, sums)
        yield _gauge(f"{group}_current_offset", "Committed offset", _OF_PARTITION, commits)
        yield _gauge(f"{group}_members", "Members of the group", ("consumergroup",), members)
        topic = "kafka_topic_partition_current_offset"
        yield _gauge(topic, "End offset", ("topic", "partition"), ends)

    def _hpas(self, now: int) -> Iterator[Metric]:
        hpas = self._newest.samples(HpaSample, now=now)
        fields = (
            ("status_desired_replicas", "Replicas that the HPA last decided", "desired"),
            ("status_current_replicas", "Replicas that the HPA last saw", "current"),
            ("spec_min_replicas", "Fewest replicas that the HPA may set", "min_replicas"),
            ("spec_max_replicas", "Most replicas that the HPA may set", "max_replicas"),
        )
        for name, text, field in fields:
            rows: list[Row] = [(self._of_hpa(hpa), getattr(hpa, field)) for hpa in hpas]
            yield _gauge(f"kube_horizontalpodautoscaler_{name}", text, _OF_HPA, rows)
        labels = (*_OF_HPA, "condition", "status")
        conditions = self._conditions(hpas, [status.lower() for status in _STATUSES])
        text = "1 for the status that the condition has"
        yield _gauge("kube_horizontalpodautoscaler_status_condition", text, labels, conditions)

    def _scaled_objects(self, now: int) -> Iterator[Metric]:
        """Yield the series of ScaledObjects as docs/monitoring.md configures them."""
        scaled = self._newest.samples(ScaledObjectSample, now=now)
        labels = (*_OF_SCALED_OBJECT, "condition", "status")
        text = "1 for the status that the condition has"
        name = "kube_customresource_scaledobject_status_condition"
        yield _gauge(name, text, labels, self._conditions(scaled, _STATUSES))

    def _conditions(
        self, samples: Iterable[HpaSample | ScaledObjectSample], statuses: Sequence[str]
    ) -> Iterator[Row]:
        """Yield a row per condition and status, of which one is 1."""
        for sample in samples:
            for condition in sample.conditions:
                name, _, status = condition.split(" ")[0].partition("=")
                for each in statuses:
                    is_so = float(each.lower() == status.lower())
                    yield (self._names.namespace, sample.name, name, each), is_so

    def _replicas(self, now: int) -> Iterator[Metric]:
        """Yield the workload's replicas; only a Deployment's wanted ones have spec in the name."""
        kind = self._names.workload.lower()
        labels = (self._names.namespace, self._names.deployment)
        samples = self._newest.samples(ReplicaSample, now=now)
        fields = (
            ("spec_replicas" if kind == "deployment" else "replicas", "Wanted replicas", "spec"),
            ("status_replicas", "Existing replicas", "current"),
            ("status_replicas_ready", "Ready replicas", "ready"),
            ("status_replicas_available", "Available replicas", "available"),
        )
        for name, text, field in fields:
            rows: list[Row] = [(labels, getattr(sample, field)) for sample in samples]
            yield _gauge(f"kube_{kind}_{name}", text, ("namespace", kind), rows)

    def _of_hpa(self, hpa: HpaSample) -> tuple[str, str]:
        return self._names.namespace, hpa.name


def _gauge(name: str, text: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in rows:
        if value is not None:
            family.add_metric(values, value)
    return family
