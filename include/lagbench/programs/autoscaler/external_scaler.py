"""The live reader of an external or external-push trigger: another program's metrics, over gRPC."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from lagbench.adapters.external_scaler_client import (
    ExternalScalerClient,
    ExternalSpec,
)
from lagbench.core.keda_scaler import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.scaled_object import Trigger
from lagbench.errors import NotReady

# What the servers of external-push triggers have streamed, by the trigger's place.
PushedSpecs = MutableMapping[int, tuple[ExternalSpec, ...]]


class ExternalScaler:
    """Asks for specs once, and at every reading for the metric and then for the activity."""

    def __init__(self, trigger: Trigger, client: ExternalScalerClient, pushed: PushedSpecs) -> None:
        """Take the client; the server is not asked anything yet."""
        self._trigger = trigger
        self._client = client
        self._pushed = pushed

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the specs streamed last, else the server's answer."""
        specs = self._pushed.get(self._trigger.index)
        if specs is None:
            try:
                specs = self._client.metric_specs()
            except NotReady as error:
                raise ScalerFailed(str(error)) from error
        return [
            MetricSpec(
                name=f"{self._prefix}{spec.metric_name}",
                trigger_index=self._trigger.index,
                kind="External",
                target_type=self._trigger.metric_type,
                target_milli=spec.target_milli,
            )
            for spec in specs
        ]

    def read(self, metric_name: str) -> MetricReading:
        """Ask for the values, then for the activity; an error of either fails the reading."""
        if not metric_name.startswith(self._prefix):
            raise ScalerFailed(
                f"metric {metric_name} is not one of trigger {self._trigger.index}: its metrics "
                f"begin with {self._prefix}"
            )
        try:
            values = self._client.metric_values(metric_name.removeprefix(self._prefix))
            return MetricReading(values, self._client.is_active())
        except NotReady as error:
            raise ScalerFailed(str(error)) from error

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()

    @property
    def _prefix(self) -> str:
        return f"s{self._trigger.index}-"
