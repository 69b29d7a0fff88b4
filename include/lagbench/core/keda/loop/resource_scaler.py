"""The scaler of a cpu or memory trigger: KEDA passes it to the HPA and reads nothing itself."""

from __future__ import annotations

from lagbench.core.keda.loop.metric_specs import trigger_metric_spec
from lagbench.core.keda.loop.scaler import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.keda.object.spec import Trigger


class ResourceScaler:
    """Yields a metric that the HPA reads from the pods."""

    def __init__(self, trigger: Trigger) -> None:
        """Take the trigger."""
        spec = trigger_metric_spec(trigger)
        self._specs: tuple[MetricSpec, ...] = () if spec is None else (spec,)

    def metric_specs(self) -> tuple[MetricSpec, ...]:
        """Return the one metric of the trigger."""
        return self._specs

    def read(self, metric_name: str) -> MetricReading:
        """Reject the call: the HPA reads the pods' usage itself."""
        raise ScalerFailed(f"{metric_name} is read by the HPA, not by KEDA")

    def close(self) -> None:
        """Hold nothing."""
