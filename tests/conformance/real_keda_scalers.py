"""Scalers over a trace's inputs: what the real sources would have answered at the same instant."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.keda.loop.scalers import (
    CronScaler,
    MetricReading,
    MetricSpec,
    OneMetric,
    Scaler,
    ScalerFailed,
    ScalersNotBuilt,
)
from lagbench.core.keda.loop.source_metrics import PartitionOffsets, PersistentLagMemory, read_lag
from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger, kept_partitions
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger, ResourceTrigger
from lagbench.core.kubernetes_values import NS_PER_SECOND
from tests.conformance.real_keda_inputs import Group, World
from tests.conformance.real_keda_trace import Trace


class _KafkaScaler(OneMetric):
    """KEDA's lag rules on the recorded offsets; remembers commits as KEDA's scaler does."""

    def __init__(
        self, trigger: Trigger, parameters: KafkaTrigger, world: World, group: str
    ) -> None:
        super().__init__(trigger)
        self._parameters, self._world, self._group = parameters, world, group
        self._memory = PersistentLagMemory()
        if self._source().broker in world.now.brokers_down:
            raise ScalersNotBuilt("error creating kafka client: no broker answers")

    def _source(self) -> Group:
        return self._world.now.groups[self._group]

    def read(self, metric_name: str) -> MetricReading:
        group, topic = self._source(), self._parameters.topic
        if group.broker in self._world.now.brokers_down:
            raise ScalerFailed("error listing offsets: no broker answers")
        if topic in self._world.now.topics_gone:
            raise ScalerFailed("error describing topics: there is no such topic")
        try:
            kept = kept_partitions(self._parameters, topic, range(len(group.ends)))
        except ValueError as error:
            raise ScalerFailed(str(error)) from error
        offsets = {
            (topic, place): PartitionOffsets(group.ends[place], group.committed[place], 0)
            for place in kept
        }
        reading, self._memory = read_lag(self._parameters, offsets, self._memory)
        return MetricReading((float(reading.metric),), reading.is_active)


class _ExternalScaler:
    """An external server with one metric, whose name and target the recorded HPA tells."""

    def __init__(self, world: World, specs: Sequence[MetricSpec]) -> None:
        self._world, self._specs = world, specs

    def _check(self) -> None:
        if self._world.now.is_external_down:
            raise ScalerFailed("rpc error: code = Unavailable")

    def metric_specs(self) -> Sequence[MetricSpec]:
        self._check()
        return self._specs

    def read(self, metric_name: str) -> MetricReading:
        self._check()
        inputs = self._world.now
        return MetricReading((inputs.external_value,), inputs.external_active)

    def close(self) -> None:
        """Hold nothing."""


class TraceScalers:
    """Builds the scalers of one trace."""

    def __init__(self, trace: Trace, world: World) -> None:
        """Take the names of groups and external metrics from the trace."""
        self._trace, self._world = trace, world

    def __deepcopy__(self, memo: object) -> TraceScalers:
        """Stay one: it holds no state of the autoscaler."""
        return self

    def build(self, trigger: Trigger) -> Scaler:
        """Return the scaler of a trigger."""
        parameters = trigger.parameters
        if isinstance(parameters, KafkaTrigger):
            name = parameters.consumer_group
            wanted = (item.id for item in self._trace.groups if item.name == name)
            group = next(wanted, self._trace.groups[0].id)
            return _KafkaScaler(trigger, parameters, self._world, group)
        if isinstance(parameters, ExternalTrigger):
            return _ExternalScaler(self._world, self._recorded_specs(trigger, parameters))
        if isinstance(parameters, ResourceTrigger):
            return OneMetric(trigger)
        if isinstance(parameters, CronTrigger):
            return CronScaler(trigger, parameters, self._now_ns)
        raise ScalersNotBuilt(f"trigger type {trigger.type} was not recorded")

    def _now_ns(self) -> int:
        return int(self._world.at * NS_PER_SECOND)

    def _recorded_specs(
        self, trigger: Trigger, parameters: ExternalTrigger
    ) -> tuple[MetricSpec, ...]:
        """Return what the server answered; the trigger's metadata where no HPA shows it."""
        prefix = f"s{trigger.index}-"
        for line in self._trace.watched("hpa"):
            for metric in (line.get("spec") or {}).get("metrics") or []:
                external = metric.get("external") or {}
                name = (external.get("metric") or {}).get("name", "")
                if name.startswith(prefix):
                    target = external["target"]
                    amount = target.get("averageValue") or target.get("value")
                    return (_external_spec(trigger, name, float(amount)),)
        amount = parameters.metadata.get("target", "1")
        return (_external_spec(trigger, f"{prefix}lag", float(amount)),)


def _external_spec(trigger: Trigger, name: str, target: float) -> MetricSpec:
    return MetricSpec(
        name=name,
        kind="External",
        target_type=trigger.metric_type,
        target_milli=round(target * 1000),
    )
