"""The sources of triggers' values on a live cluster: Kafka, Prometheus and external scalers."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import KafkaException
from pydantic import SecretStr

from lagbench.adapters.grpc.external_scaler_client import (
    ChannelPool,
    ExternalObject,
    ExternalScalerClient,
    ExternalSpec,
    GrpcEndpoint,
    ServerStream,
)
from lagbench.adapters.kafka.kafka_lag import (
    DEFAULT_TIMEOUT_SECONDS,
    open_trigger,
    read_trigger_offsets,
)
from lagbench.adapters.kube.followed_cluster import SERVICE, Cluster, ClusterError, ObjectKey
from lagbench.adapters.prometheus import PrometheusClient
from lagbench.core.keda.loop.scalers import (
    CronScaler,
    MetricReading,
    MetricSpec,
    OneMetric,
    Scaler,
    ScalerFailed,
    ScalersNotBuilt,
)
from lagbench.core.keda.loop.source_metrics import PersistentLagMemory, read_answer, read_lag
from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.keda.triggers.cron_trigger import CronTrigger
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.prometheus_parameters import PrometheusTrigger
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger, ResourceTrigger
from lagbench.core.scenario.run_names import PORT_ANNOTATION
from lagbench.errors import NotReady

log = logging.getLogger(__name__)

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"

_SERVICE_ADDRESS = re.compile(
    rf"(?P<name>{_LABEL})\.(?P<namespace>{_LABEL})(?:\.svc(?:\.[-a-z0-9.]+)?)?:(?P<port>[0-9]+)"
)

_HTTP_PORT = 80


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
                return OneMetric(trigger)
            case ExternalTrigger():
                return ExternalScaler(trigger, self.external_client(key, parameters))
            case PrometheusTrigger():
                url = self._looked_up(parameters.server_address, dialled_url)
                return PrometheusScaler(trigger, parameters, url)
        raise ScalersNotBuilt(f"no scaler found for type: {trigger.type}")

    def external_client(self, key: ObjectKey, parameters: ExternalTrigger) -> ExternalScalerClient:
        """Return a client for an external trigger; it connects with its first call."""

        def revealed(secret: SecretStr | None) -> str:
            return "" if secret is None else secret.get_secret_value()

        address = parameters.scaler_address
        dialled = self._looked_up(address, dialled_address)
        endpoint = GrpcEndpoint(
            address=dialled,
            # A certificate names the server as the trigger does, not as loopback.
            server_name="" if dialled == address else address.rpartition(":")[0],
            is_tls=parameters.uses_tls,
            skips_verification=parameters.unsafe_ssl,
            ca=revealed(parameters.ca_cert),
            cert=revealed(parameters.tls_client_cert),
            key=revealed(parameters.tls_client_key),
        )
        about = ExternalObject(name=key[1], namespace=key[0], metadata=parameters.metadata)
        return ExternalScalerClient(self._channels, endpoint, about)

    def _looked_up(self, address: str, look_up: Callable[[str, Cluster], str]) -> str:
        try:
            return look_up(address, self._cluster)
        except ClusterError as error:
            raise ScalersNotBuilt(f"could not look up {address}: {error}") from error


class KafkaScaler(OneMetric):
    """Lag by KEDA's rules, with what excludePersistentLag remembers between two readings."""

    def __init__(self, trigger: Trigger, parameters: KafkaTrigger) -> None:
        """Connect; a broker that does not answer makes building fail, as KEDA's client does."""
        super().__init__(trigger)
        self._parameters = parameters
        self._memory = PersistentLagMemory()
        servers = ",".join(parameters.bootstrap_servers)
        topic = None if parameters.full_metadata else parameters.topic
        try:
            self._admin = open_trigger(parameters)
            self._admin.list_topics(topic=topic, timeout=DEFAULT_TIMEOUT_SECONDS)
        except KafkaException as error:
            why = f"no broker of {servers} answers: {error.args[0].str()}"
            raise ScalersNotBuilt(f"error creating kafka client: {why}") from error
        except (NotReady, ValueError) as error:
            raise ScalersNotBuilt(f"error creating kafka client: {error}") from error

    def read(self, metric_name: str) -> MetricReading:  # noqa: ARG002 - the trigger has one metric
        """Read all offsets and apply the rules; the memory advances only on success."""
        try:
            offsets = read_trigger_offsets(
                self._admin, self._parameters, timeout_seconds=DEFAULT_TIMEOUT_SECONDS
            )
            reading, self._memory = read_lag(self._parameters, offsets, self._memory)
        except (NotReady, ValueError) as error:
            raise ScalerFailed(str(error)) from error
        return MetricReading((float(reading.metric),), reading.is_active)


class PrometheusScaler(OneMetric):
    """The value of a query; a server that is down fails the poll, not the building."""

    def __init__(
        self, trigger: Trigger, parameters: PrometheusTrigger, server_address: str
    ) -> None:
        """Connect with the first poll; ``server_address`` is where the server is reached."""
        super().__init__(trigger)
        self._parameters = parameters
        self._client = PrometheusClient(parameters, server_address)

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


class ExternalScaler:
    """Another program's metrics, over gRPC."""

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
        try:
            name = metric_name.removeprefix(f"s{self._trigger.index}-")
            values = self._client.metric_values(name)
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
            name=f"s{trigger.index}-{spec.metric_name}",
            kind="External",
            target_type=trigger.metric_type,
            target_milli=spec.target_milli,
        )
        for spec in specs
    ]


def dialled_url(url: str, cluster: Cluster) -> str:
    """Return the URL with the loopback address behind its Service; without one, the URL itself.

    A Service of the bench speaks no TLS, so that an https URL stays.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # of a URL that is none each poll fails
        return url
    if parts.scheme != "http" or "@" in parts.netloc:
        return url
    address = parts.netloc if ":" in parts.netloc else f"{parts.netloc}:{_HTTP_PORT}"
    dialled = dialled_address(address, cluster)
    return url if dialled == address else parts._replace(netloc=dialled).geturl()


def dialled_address(address: str, cluster: Cluster) -> str:
    """Return the loopback address behind ``name.namespace[.svc[...]]:port``, else ``address``.

    Names of a cluster do not resolve on the embedded bench. ``ClusterError`` when the API server
    does not say whether there is such a Service.
    """
    match = _SERVICE_ADDRESS.fullmatch(address)
    if match is None:
        return address
    try:
        service = cluster.get(SERVICE, (match["namespace"], match["name"]))
    except ClusterError as error:
        if error.is_not_found:
            return address
        raise
    annotations = service["metadata"].get("annotations") or {}
    for port in (service.get("spec") or {}).get("ports") or []:
        if port["port"] == int(match["port"]):
            number = annotations.get(f"{PORT_ANNOTATION}{port.get('name') or port['port']}")
            return address if number is None else f"127.0.0.1:{number}"
    return address


# KEDA waits 2 s before it opens a stream again, doubling up to 60 s while it keeps failing.
FIRST_DELAY_SECONDS = 2.0

LONGEST_DELAY_SECONDS = 60.0


class PushStreams:
    """Open until ``stop``, one connection per trigger and stream."""

    def __init__(
        self,
        key: ObjectKey,
        triggers: Sequence[Trigger],
        sources: LiveSources,
        *,
        on_active: Callable[[int], None],
        on_specs: Callable[[int, Sequence[MetricSpec]], None],
    ) -> None:
        """Call ``on_active`` and ``on_specs`` with the trigger's index; deactivation is ignored."""
        self._readers: list[StreamReader] = []

        def take_activity(trigger: Trigger, is_active: bool) -> None:
            if is_active:
                on_active(trigger.index)

        def take_specs(trigger: Trigger, specs: Any) -> None:
            if specs:
                on_specs(trigger.index, reported_specs(trigger, specs))

        open_activity, open_specs = (
            ExternalScalerClient.open_activity_stream,
            ExternalScalerClient.open_spec_stream,
        )
        for trigger in triggers:
            parameters = trigger.parameters
            if not isinstance(parameters, ExternalTrigger) or not parameters.is_push:
                continue
            name = f"{'/'.join(key)} trigger {trigger.index}"
            client = partial(sources.external_client, key, parameters)
            self._readers += [
                StreamReader(name, client, open_activity, partial(take_activity, trigger)),
                StreamReader(
                    name, client, open_specs, partial(take_specs, trigger), is_optional=True
                ),
            ]
        for reader in self._readers:
            reader.start()

    def stop(self) -> None:
        """End the streams; what is being worked on is finished."""
        for reader in self._readers:
            reader.stop()


class StreamReader(threading.Thread):
    """Gives each message to ``on_message``, and opens the stream again when it ends."""

    def __init__(
        self,
        name: str,
        open_client: Callable[[], ExternalScalerClient],
        open_stream: Callable[[ExternalScalerClient], ServerStream[Any]],
        on_message: Callable[[Any], None],
        *,
        is_optional: bool = False,
    ) -> None:
        """Read nothing before ``start``; each opening has a client of its own.

        An optional stream is given up when the server does not know it, and a message is enough
        to forget earlier failures; of the other kind only a clean end is.
        """
        super().__init__(name=name, daemon=True)
        self._open_client, self._open_stream = open_client, open_stream
        self._on_message, self._is_optional = on_message, is_optional
        self._is_over = threading.Event()
        self._stream: ServerStream[Any] | None = None
        self._messages = 0  # of the present stream

    def stop(self) -> None:
        """End the stream; a message that is being worked on is finished."""
        self._is_over.set()
        if self._stream is not None:
            self._stream.cancel()

    def run(self) -> None:
        """Read until stopped."""
        delay_seconds = FIRST_DELAY_SECONDS
        while not self._is_over.is_set():
            self._messages, is_clean = 0, True
            try:
                self._read_one_stream()
            except NotReady as error:
                is_unknown = self._is_optional and getattr(error, "is_unimplemented", False)
                if self._is_over.is_set() or is_unknown:
                    return
                log.warning("%s: %s", self.name, error)
                is_clean = False
            if is_clean or (self._is_optional and self._messages):
                delay_seconds = FIRST_DELAY_SECONDS
            self._is_over.wait(delay_seconds)
            delay_seconds = min(2 * delay_seconds, LONGEST_DELAY_SECONDS)

    def _read_one_stream(self) -> None:
        client = self._open_client()
        try:
            stream = self._stream = self._open_stream(client)
            if self._is_over.is_set():  # stopped before there was a stream to cancel
                stream.cancel()
            for message in stream:
                self._messages += 1
                try:
                    self._on_message(message)
                except NotReady as error:
                    log.warning("%s: a message is lost: %s", self.name, error)
        finally:
            client.close()
