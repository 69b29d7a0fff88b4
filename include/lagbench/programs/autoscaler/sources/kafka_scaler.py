"""The live reader of a kafka trigger: lag of one consumer group by KEDA's rules."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException

from lagbench.adapters.kafka.kafka_lag import DEFAULT_TIMEOUT_SECONDS
from lagbench.adapters.kafka.kafka_trigger import open_trigger, read_trigger_offsets
from lagbench.core.keda.loop import (
    MetricReading,
    MetricSpec,
    PersistentLagMemory,
    ScalerFailed,
    ScalersNotBuilt,
    read_lag,
    trigger_metric_spec,
)
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import KafkaTrigger
from lagbench.errors import NotReady


class KafkaScaler:
    """Keeps one connection, and what excludePersistentLag remembers between two readings."""

    def __init__(
        self,
        trigger: Trigger,
        parameters: KafkaTrigger,
        *,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        """Connect; a broker that does not answer makes building fail, as KEDA's client does."""
        self._trigger = trigger
        self._parameters = parameters
        self._timeout_seconds = timeout_seconds
        self._memory = PersistentLagMemory()
        servers = ",".join(parameters.bootstrap_servers)
        try:
            self._admin = open_trigger(parameters)
            self._admin.list_topics(
                topic=None if parameters.full_metadata else parameters.topic,
                timeout=timeout_seconds,
            )
        except KafkaException as error:
            raise ScalersNotBuilt(
                f"error creating kafka client: no broker of {servers} answers: "
                f"{error.args[0].str()}"
            ) from error
        except (NotReady, ValueError) as error:
            raise ScalersNotBuilt(f"error creating kafka client: {error}") from error

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric of the trigger."""
        spec = trigger_metric_spec(self._trigger)
        return () if spec is None else (spec,)

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - the trigger has one metric
        """Read all offsets and apply the rules; the memory advances only on success."""
        try:
            return self._read()
        except (NotReady, ValueError) as error:
            raise ScalerFailed(str(error)) from error

    def close(self) -> None:
        """Keep nothing: librdkafka's client ends together with this object."""

    def _read(self) -> MetricReading:
        offsets = read_trigger_offsets(
            self._admin, self._parameters, timeout_seconds=self._timeout_seconds
        )
        reading, self._memory = read_lag(self._parameters, offsets, self._memory)
        return MetricReading((float(reading.metric),), reading.is_active)
