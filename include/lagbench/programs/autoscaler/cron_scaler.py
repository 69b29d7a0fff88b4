"""The live reader of a cron trigger: its source is the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from lagbench.core.cron_trigger import CronTrigger
from lagbench.core.keda_scaler import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.scaled_object import Trigger


class CronScaler:
    """Gives the wanted replicas inside the trigger's hours, and 0 outside."""

    def __init__(
        self, trigger: Trigger, parameters: CronTrigger, wall_ns: Callable[[], int]
    ) -> None:
        """Take the clock; whether the time zone exists shows at the first reading, as in KEDA."""
        self._trigger = trigger
        self._parameters = parameters
        self._wall_ns = wall_ns

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric of the trigger."""
        return [
            MetricSpec(
                name=self._parameters.metric_name(self._trigger.index),
                trigger_index=self._trigger.index,
                kind="External",
                target_type="AverageValue",
                target_milli=self._parameters.target_milli,
            )
        ]

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - the trigger has one metric
        """Look at the clock."""
        now = datetime.fromtimestamp(self._wall_ns() / 1e9, UTC)
        try:
            value = self._parameters.value_at(now)
            return MetricReading((value,), self._parameters.is_within(now))
        except ValueError as error:
            raise ScalerFailed(str(error)) from error

    def close(self) -> None:
        """Hold nothing."""
