"""Scalers over the simulated world, by trigger type; the rules they apply are the live ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from lagbench.core.cron_trigger import CronTrigger
from lagbench.core.external_trigger import ExternalTrigger
from lagbench.core.kafka_trigger import KafkaTrigger, kept_partitions
from lagbench.core.keda_hpa import trigger_metric_spec
from lagbench.core.keda_scaler import MetricReading, MetricSpec, Scaler, ScalerFailed
from lagbench.core.resource_trigger import ResourceTrigger
from lagbench.core.scaled_object import Trigger
from lagbench.core.simulation.lag_arrays import TopicOffsets, read_lag_arrays
from lagbench.core.simulation.world import World
from lagbench.core.statistics import Ints
from lagbench.errors import WrongInput

_NS_PER_SECOND = 1e9


class _TriggerScaler:
    """A trigger whose one metric the trigger itself tells."""

    def __init__(self, trigger: Trigger) -> None:
        spec = trigger_metric_spec(trigger)
        self._specs: tuple[MetricSpec, ...] = () if spec is None else (spec,)

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric."""
        return self._specs

    def check(self, metric_name: str) -> None:
        """Refuse a metric that is not the trigger's."""
        if metric_name != self._specs[0].name:
            raise ScalerFailed(f"the trigger has no metric {metric_name}")

    def read(self, metric_name: str) -> MetricReading:
        """Refuse: KEDA itself has no value of a resource."""
        raise ScalerFailed(f"{metric_name} is read by the HPA alone")

    def close(self) -> None:
        """Hold nothing that must be let go."""


class KafkaScaler(_TriggerScaler):
    """KEDA's kafka scaler; remembers commits for excludePersistentLag as long as it lives."""

    def __init__(self, trigger: Trigger, parameters: KafkaTrigger, world: World) -> None:
        """Read the partitions that the trigger keeps."""
        super().__init__(trigger)
        self._trigger, self._world = parameters, world
        count = world.scenario.partitions
        kept = kept_partitions(parameters, parameters.topic, range(count))
        self._kept = None if len(kept) == count else kept
        self._remembered: Ints | None = None

    def read(self, metric_name: str) -> MetricReading:
        """Poll the group's lag."""
        self.check(metric_name)
        offsets = self._world.offsets()
        if self._kept is not None:
            offsets = TopicOffsets(
                offsets.end[self._kept], offsets.committed[self._kept], is_all_known=True
            )
        metric, is_active, self._remembered = read_lag_arrays(
            self._trigger, offsets, self._remembered
        )
        return MetricReading((metric,), is_active)


class CronScaler(_TriggerScaler):
    """KEDA's cron scaler on the virtual clock."""

    def __init__(self, trigger: Trigger, parameters: CronTrigger, world: World) -> None:
        """Ask the world for the time only."""
        super().__init__(trigger)
        self._trigger, self._world = parameters, world

    def read(self, metric_name: str) -> MetricReading:
        """Return the wanted replicas inside the window, else nothing."""
        self.check(metric_name)
        at = datetime.fromtimestamp(self._world.now_ns / _NS_PER_SECOND, UTC)
        try:
            value = self._trigger.value_at(at)
        except ValueError as error:
            raise ScalerFailed(str(error)) from error
        return MetricReading((value,), value > 0)


ExternalScaler = Callable[[Trigger, ExternalTrigger], Scaler]


def build_scaler(trigger: Trigger, world: World, external: ExternalScaler) -> Scaler:
    """Return the trigger's scaler; ``external`` gives those that stand for a gRPC server."""
    parameters = trigger.parameters
    match parameters:
        case KafkaTrigger():
            return KafkaScaler(trigger, parameters, world)
        case CronTrigger():
            return CronScaler(trigger, parameters, world)
        case ResourceTrigger():
            return _TriggerScaler(trigger)
        case ExternalTrigger():
            return external(trigger, parameters)
    raise WrongInput(
        where="policy", field="triggers", value=trigger.type, allowed="what the simulator can play"
    )
