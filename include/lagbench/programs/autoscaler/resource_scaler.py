"""The scaler of a cpu or memory trigger: KEDA tells the HPA of it and reads nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.keda_scaler import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.resource_trigger import ResourceTrigger
from lagbench.core.scaled_object import Trigger


class ResourceScaler:
    """Yields a metric that the HPA reads from the pods."""

    def __init__(self, trigger: Trigger, parameters: ResourceTrigger) -> None:
        """Take the trigger."""
        self._trigger = trigger
        self._parameters = parameters

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric of the trigger."""
        parameters = self._parameters
        return [
            MetricSpec(
                name=parameters.resource,
                trigger_index=self._trigger.index,
                kind="Resource",
                target_type=parameters.target_type,
                target_milli=parameters.target_milli or 0,
                target_percent=parameters.target_percent,
                container_name=parameters.container_name,
            )
        ]

    def read(self, metric_name: str) -> MetricReading:
        """Refuse: pods' usage is the HPA's business."""
        raise ScalerFailed(f"{metric_name} is read by the HPA, not by KEDA")

    def close(self) -> None:
        """Hold nothing."""
