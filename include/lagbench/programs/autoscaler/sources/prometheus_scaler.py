"""The live reader of a prometheus trigger: the value of a query."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.adapters.prometheus.prometheus_query import PrometheusClient
from lagbench.core.keda.loop import (
    MetricReading,
    MetricSpec,
    ScalerFailed,
    read_answer,
    trigger_metric_spec,
)
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import PrometheusTrigger
from lagbench.errors import NotReady


class PrometheusScaler:
    """Asks at each poll; a server that is down fails the poll, not the building."""

    def __init__(
        self, trigger: Trigger, parameters: PrometheusTrigger, server_address: str
    ) -> None:
        """Connect with the first poll; ``server_address`` is where the server is reached."""
        self._trigger, self._parameters = trigger, parameters
        self._client = PrometheusClient(parameters, server_address)

    def metric_specs(self) -> Sequence[MetricSpec]:
        """Return the one metric of the trigger."""
        spec = trigger_metric_spec(self._trigger)
        return () if spec is None else (spec,)

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - the trigger has one metric
        """Request the query's value at the present second."""
        try:
            status, body = self._client.ask()
        except NotReady as error:
            raise ScalerFailed(str(error)) from error
        return read_answer(self._parameters, status, body)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
