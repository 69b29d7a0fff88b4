"""The live reader of an external or external-push trigger: another program's metrics, over gRPC."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lagbench.adapters.grpc.external_scaler_client import ExternalScalerClient, ExternalSpec
from lagbench.core.keda.loop import MetricReading, MetricSpec, ScalerFailed
from lagbench.core.keda.object import Trigger
from lagbench.errors import NotReady


class ExternalScaler:
    """Requests the specs, and at every reading the metric and then the activity."""

    def __init__(self, trigger: Trigger, client: ExternalScalerClient) -> None:
        """Take the client; the server is not asked anything yet."""
        self._trigger = trigger
        self._client = client

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return what the server offers for the trigger."""
        try:
            return reported_specs(self._trigger, self._client.metric_specs())
        except NotReady as error:
            raise ScalerFailed(str(error)) from error

    def read(self, metric_name: str) -> MetricReading:
        """Request the values, then the activity; an error of either fails the reading."""
        prefix = _prefix(self._trigger)
        if not metric_name.startswith(prefix):
            raise ScalerFailed(
                f"metric {metric_name} is not one of trigger {self._trigger.index}: its metrics "
                f"begin with {prefix}"
            )
        try:
            values = self._client.metric_values(metric_name.removeprefix(prefix))
            return MetricReading(values, self._client.is_active())
        except NotReady as error:
            raise ScalerFailed(str(error)) from error

    def close(self) -> None:
        """Give the connection back."""
        self._client.close()


def reported_specs(trigger: Trigger, specs: Iterable[ExternalSpec]) -> list[MetricSpec]:
    """Return a server's specs as metrics of the object; the server's names are kept as they are."""
    return [
        MetricSpec(
            name=f"{_prefix(trigger)}{spec.metric_name}",
            kind="External",
            target_type=trigger.metric_type,
            target_milli=spec.target_milli,
        )
        for spec in specs
    ]


def _prefix(trigger: Trigger) -> str:
    return f"s{trigger.index}-"
