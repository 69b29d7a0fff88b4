"""Open the source of a trigger, whatever its type: what turns a parsed trigger into readings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pydantic import SecretStr

from lagbench.adapters.grpc.external_scaler_client import ExternalObject, ExternalScalerClient
from lagbench.adapters.grpc.grpc_channels import ChannelPool, GrpcEndpoint
from lagbench.adapters.kube.cluster_protocol import Cluster, ClusterError, ObjectKey
from lagbench.core.keda.loop import CronScaler, ResourceScaler, Scaler, ScalersNotBuilt
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import (
    CronTrigger,
    ExternalTrigger,
    KafkaTrigger,
    PrometheusTrigger,
    ResourceTrigger,
)
from lagbench.programs.autoscaler.sources.external_scaler import ExternalScaler
from lagbench.programs.autoscaler.sources.kafka_scaler import KafkaScaler
from lagbench.programs.autoscaler.sources.prometheus_scaler import PrometheusScaler
from lagbench.programs.autoscaler.sources.service_address import dialled_address, dialled_url


class TriggerSources(Protocol):
    """Opens what the triggers of all objects are read from."""

    def scaler(self, key: ObjectKey, trigger: Trigger) -> Scaler:
        """Return a reader of a trigger of the object ``key``, or raise ``ScalersNotBuilt``."""
        ...

    def external_client(self, key: ObjectKey, parameters: ExternalTrigger) -> ExternalScalerClient:
        """Return a client for the streams of an external-push trigger."""
        ...


class LiveSources:
    """The real sources; all objects share the gRPC channels."""

    def __init__(self, cluster: Cluster, wall_ns: Callable[[], int]) -> None:
        """Look Services up in ``cluster``; open nothing yet."""
        self._cluster = cluster
        self._wall_ns = wall_ns
        self._channels = ChannelPool()

    def scaler(self, key: ObjectKey, trigger: Trigger) -> Scaler:
        """Return a reader of a trigger of the object ``key``, or raise ``ScalersNotBuilt``."""
        parameters = trigger.parameters
        match parameters:
            case KafkaTrigger():
                return KafkaScaler(trigger, parameters)
            case CronTrigger():
                return CronScaler(trigger, parameters, self._wall_ns)
            case ResourceTrigger():
                return ResourceScaler(trigger)
            case ExternalTrigger():
                return ExternalScaler(trigger, self.external_client(key, parameters))
            case PrometheusTrigger():
                url = self._looked_up(parameters.server_address, dialled_url)
                return PrometheusScaler(trigger, parameters, url)
        raise ScalersNotBuilt(f"no scaler found for type: {trigger.type}")

    def external_client(self, key: ObjectKey, parameters: ExternalTrigger) -> ExternalScalerClient:
        """Return a client for an external trigger; it connects with its first call."""
        address = parameters.scaler_address
        dialled = self._looked_up(address, dialled_address)
        endpoint = GrpcEndpoint(
            address=dialled,
            # A certificate names the server as the trigger does, not as loopback.
            server_name="" if dialled == address else address.rpartition(":")[0],
            is_tls=parameters.uses_tls,
            skips_verification=parameters.unsafe_ssl,
            ca=_revealed(parameters.ca_cert),
            cert=_revealed(parameters.tls_client_cert),
            key=_revealed(parameters.tls_client_key),
        )
        about = ExternalObject(name=key[1], namespace=key[0], metadata=parameters.metadata)
        return ExternalScalerClient(self._channels, endpoint, about)

    def _looked_up(self, address: str, look_up: Callable[[str, Cluster], str]) -> str:
        try:
            return look_up(address, self._cluster)
        except ClusterError as error:
            raise ScalersNotBuilt(f"could not look up {address}: {error}") from error


def _revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
