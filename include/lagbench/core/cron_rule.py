"""Reader of a cron trigger: its value and activity at the instant a clock gives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from lagbench.core.cron_trigger import CronTrigger
from lagbench.core.instants import NS_PER_SECOND
from lagbench.core.keda_scaler import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.scaled_object import Trigger

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CronScaler:
    """Reads the clock; a schedule has minutes, so one answer holds until the minute is over."""

    def __init__(
        self, trigger: Trigger, parameters: CronTrigger, now_ns: Callable[[], int]
    ) -> None:
        """Answer for ``trigger`` by the wall clock ``now_ns``."""
        self._specs = (
            MetricSpec(
                name=parameters.metric_name(trigger.index),
                trigger_index=trigger.index,
                kind="External",
                target_type=trigger.metric_type,
                target_milli=parameters.target_milli,
            ),
        )
        self._parameters = parameters
        self._now_ns = now_ns
        self._minute = -1
        self._reading = MetricReading((0.0,), is_active=False)

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the one metric of the trigger."""
        return self._specs

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - there is only one
        """Return the wanted replicas inside the window, else 0."""
        minute = self._now_ns() // (60 * NS_PER_SECOND)
        if minute != self._minute:
            try:
                is_within = self._parameters.is_within(_EPOCH + timedelta(minutes=minute))
            except ValueError as error:
                raise ScalerFailed(str(error)) from error
            value = float(self._parameters.desired_replicas) if is_within else 0.0
            self._reading, self._minute = MetricReading((value,), is_within), minute
        return self._reading

    def close(self) -> None:
        """Hold nothing."""
