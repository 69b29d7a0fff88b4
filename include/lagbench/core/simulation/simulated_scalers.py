"""Scalers over the simulated world, by trigger type; the rules they apply are the live ones."""

from __future__ import annotations

from collections.abc import Callable

from lagbench.core.keda.loop import (
    CronScaler,
    MetricReading,
    MetricSpec,
    ResourceScaler,
    Scaler,
    trigger_metric_spec,
)
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import (
    TRIGGER_TYPES,
    CronTrigger,
    ExternalTrigger,
    KafkaTrigger,
    ResourceTrigger,
    kept_partitions,
)
from lagbench.core.measures import Ints
from lagbench.core.simulation.lag_arrays import TopicOffsets, read_lag_arrays
from lagbench.core.simulation.scraped_lag import ScrapedLag, ScrapedScaler
from lagbench.core.simulation.world import World
from lagbench.errors import WrongInput


class KafkaScaler:
    """KEDA's kafka scaler; remembers commits for excludePersistentLag as long as it lives."""

    def __init__(self, trigger: Trigger, parameters: KafkaTrigger, world: World) -> None:
        """Read the partitions that the trigger keeps."""
        spec = trigger_metric_spec(trigger)
        self._specs: tuple[MetricSpec, ...] = () if spec is None else (spec,)
        self._trigger, self._world = parameters, world
        self._count = world.scenario.partitions
        self._kept = kept_partitions(parameters, parameters.topic, range(self._count))
        self._remembered: Ints | None = None

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the one metric of the trigger."""
        return self._specs

    def close(self) -> None:
        """Hold nothing that must be let go."""

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - there is only one
        """Poll the group's lag."""
        offsets = self._world.offsets()
        if offsets.end.size != self._count:  # the topic has grown
            self._count = offsets.end.size
            self._kept = kept_partitions(self._trigger, self._trigger.topic, range(self._count))
        if len(self._kept) < self._count:
            offsets = TopicOffsets(
                offsets.end[self._kept], offsets.committed[self._kept], is_all_known=True
            )
        metric, is_active, self._remembered = read_lag_arrays(
            self._trigger, offsets, self._remembered
        )
        return MetricReading((metric,), is_active)


ExternalScaler = Callable[[Trigger, ExternalTrigger], Scaler]
Scraped = Callable[[], ScrapedLag]


def build_scaler(
    trigger: Trigger, world: World, external: ExternalScaler, scraped: Scraped
) -> Scaler:
    """Return the trigger's scaler.

    ``external`` gives those that stand for a gRPC server, ``scraped`` the samples of Prometheus.

    :raises WrongInput: nothing in the simulated world says what the trigger reads.
    """
    parameters = trigger.parameters
    sampled_lag = TRIGGER_TYPES[trigger.type].sampled_lag
    if sampled_lag is not None:
        field = f"spec.triggers[{trigger.index}].metadata"
        return ScrapedScaler(trigger, sampled_lag(parameters, field), scraped(), world)
    match parameters:
        case KafkaTrigger():
            return KafkaScaler(trigger, parameters, world)
        case CronTrigger():
            return CronScaler(trigger, parameters, lambda: world.now_ns)
        case ResourceTrigger():
            return ResourceScaler(trigger)
        case ExternalTrigger():
            return external(trigger, parameters)
    raise WrongInput(
        where="policy",
        field="triggers",
        value=trigger.type,
        allowed="the trigger types of the simulator",
    )
