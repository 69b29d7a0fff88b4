"""The scaler of a cron trigger, for every clock: its source is the instant that the clock gives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from lagbench.core.keda.loop.metric_specs import trigger_metric_spec
from lagbench.core.keda.loop.scaler import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.keda.object.spec import Trigger
from lagbench.core.keda.triggers.cron import CronTrigger
from lagbench.core.kubernetes.instants import NS_PER_SECOND

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CronScaler:
    """Wants the replicas inside the trigger's hours, and none outside.

    An answer holds until the next start or end; a poll in between compares two integers.
    """

    def __init__(
        self, trigger: Trigger, parameters: CronTrigger, now_ns: Callable[[], int]
    ) -> None:
        """Answer for ``trigger`` by the wall clock ``now_ns``."""
        spec = trigger_metric_spec(trigger)
        self._specs: tuple[MetricSpec, ...] = () if spec is None else (spec,)
        self._parameters = parameters
        self._now_ns = now_ns
        self._reading = MetricReading((0.0,), is_active=False)
        self._holds_from_ns = self._holds_until_ns = 0

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the one metric of the trigger."""
        return self._specs

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - there is only one
        """Look at the clock; whether the time zone exists shows here, as in KEDA."""
        now_ns = self._now_ns()
        if not self._holds_from_ns <= now_ns < self._holds_until_ns:
            self._look(now_ns)
        return self._reading

    def close(self) -> None:
        """Hold nothing."""

    def _look(self, now_ns: int) -> None:
        # A schedule has minutes; rounded down, an instant keeps its place between two of them.
        second = now_ns // NS_PER_SECOND
        try:
            window = self._parameters.window_at(_EPOCH + timedelta(seconds=second))
        except ValueError as error:
            raise ScalerFailed(str(error)) from error
        value = float(self._parameters.desired_replicas) if window.is_within else 0.0
        self._reading = MetricReading((value,), window.is_within)
        self._holds_from_ns = second * NS_PER_SECOND
        self._holds_until_ns = (window.until - _EPOCH) // timedelta(seconds=1) * NS_PER_SECOND
