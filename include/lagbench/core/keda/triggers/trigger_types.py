"""The ``external``, ``external-push``, ``cpu`` and ``memory`` triggers, and the list of all types.

A new type has its model and its ``TriggerType`` in a module here, and a line in ``TRIGGER_TYPES``;
the live autoscaler has a scaler for it (``programs/autoscaler/trigger_sources``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from lagbench.core.keda.triggers.cron_trigger import CRON
from lagbench.core.keda.triggers.kafka_parameters import KAFKA, parse_kafka_trigger
from lagbench.core.keda.triggers.prometheus_parameters import PROMETHEUS
from lagbench.core.keda.triggers.trigger_parameters import (
    Given,
    NotSupported,
    Secret,
    TriggerParameters,
    TriggerRefused,
    TriggerSource,
    TriggerType,
    read_values,
)
from lagbench.core.kubernetes_values import parse_milli

_FROM_ENV = "FromEnv"

_INT32 = range(-(2**31), 2**31)


class ExternalTrigger(TriggerParameters):
    """Parameters of one external trigger; the names of its metrics are known to the server only.

    ``metadata`` is what is sent with every call: a ``...FromEnv`` key carries the variable's value,
    which may be a secret, so it has no repr.
    """

    is_push: bool
    scaler_address: Annotated[str, Given()]
    enable_tls: Annotated[bool, Given(name="enableTLS")] = False
    unsafe_ssl: Annotated[bool, Given()] = False
    ca_cert: Secret = None  # PEM text, as the secret holds it
    tls_client_cert: Secret = None
    tls_client_key: Secret = None
    metadata: Mapping[str, str] = Field(default_factory=dict, repr=False)

    @property
    def uses_tls(self) -> bool:
        """Return whether the connection is encrypted: asked for, or a certificate is given."""
        has_pair = bool(self.tls_client_cert) and bool(self.tls_client_key)
        return self.enable_tls or has_pair or bool(self.ca_cert)

    @property
    def connection_key(self) -> tuple[str | bool, ...]:
        """Return what two triggers must have in common to share one connection."""
        secrets = (self.ca_cert, self.tls_client_cert, self.tls_client_key)
        revealed = ("" if item is None else item.get_secret_value() for item in secrets)
        return (self.scaler_address, self.enable_tls, self.unsafe_ssl, *revealed)

    def metric_name(self, trigger_index: int) -> str:
        """Return what the names of all this trigger's metrics begin with."""
        return f"s{trigger_index}-"


def _parse_external(source: TriggerSource, *, is_push: bool) -> ExternalTrigger:
    values, problems = read_values(ExternalTrigger, source)
    if problems:
        raise source.refused(*problems[0])
    sent = {
        key: source.environment.get(value, "") if key.endswith(_FROM_ENV) else value
        for key, value in source.metadata.items()
    }
    # An unset or empty variable is left out.
    kept = {key: value for key, value in sent.items() if value or not key.endswith(_FROM_ENV)}
    return ExternalTrigger.model_validate({**values, "is_push": is_push, "metadata": kept})


class ResourceTrigger(TriggerParameters):
    """Parameters of one cpu or memory trigger; ``container_name`` empty: the whole pod."""

    resource: Literal["cpu", "memory"]
    target_type: Literal["Utilization", "AverageValue"]
    target_percent: int | None = None
    target_milli: int | None = None
    container_name: str = ""

    def metric_name(self, trigger_index: int) -> str:  # noqa: ARG002 - as of the other triggers
        """Return the resource's name: resource metrics carry no index."""
        return self.resource


def _parse_resource(resource: Literal["cpu", "memory"], source: TriggerSource) -> ResourceTrigger:
    if source.find("type", ("metadata",)) is not None:
        raise source.refused("type", "removed in KEDA 2.18: use metricType instead")
    value, _ = source.find("value", ("metadata",)) or ("", "")
    container, _ = source.find("containerName", ("metadata",)) or ("", "")
    if not value:
        raise source.refused("value", "required, in the metadata")
    percent = milli = None
    if source.metric_type == "Utilization":
        try:
            percent = int(value)
        except ValueError:
            percent = None
        if percent is None or percent not in _INT32:
            raise source.refused("value", f'{resource}: "{value}" is not a whole percentage')
    elif source.metric_type == "AverageValue":
        # KEDA panics on a text that is not a quantity; the operator reports the panic.
        field = f"{source.field}.metadata.value"
        milli = parse_milli(value, where=source.where, field=field)
    else:
        raise TriggerRefused(
            where=source.where,
            field=f"{source.field}.metricType",
            value=source.metric_type,
            keda_message=f"metricType of {resource} must be Utilization or AverageValue",
        )
    return ResourceTrigger(
        resource=resource,
        target_type="AverageValue" if percent is None else "Utilization",
        target_percent=percent,
        target_milli=milli,
        container_name=container,
    )


class ForeignTrigger(TriggerParameters):
    """A trigger whose type only KEDA has, as it is written."""

    metadata: Mapping[str, str] = Field(default_factory=dict, repr=False)

    def metric_name(self, trigger_index: int) -> str:
        """Return what the names of all this trigger's metrics begin with."""
        return f"s{trigger_index}-"


TRIGGER_TYPES: Mapping[str, TriggerType[Any]] = {
    known.name: known
    for known in (
        KAFKA,
        TriggerType("external", lambda s: _parse_external(s, is_push=False), outage="metric names"),
        TriggerType(
            "external-push", lambda s: _parse_external(s, is_push=True), outage="metric names"
        ),
        CRON,
        TriggerType(
            "cpu",
            lambda s: _parse_resource("cpu", s),
            is_resource=True,
            may_be_cached=False,
            outage="none",
        ),
        TriggerType(
            "memory",
            lambda s: _parse_resource("memory", s),
            is_resource=True,
            may_be_cached=False,
            outage="none",
        ),
        PROMETHEUS,
    )
}

RESOURCE_TYPES = tuple(name for name, known in TRIGGER_TYPES.items() if known.is_resource)

# KEDA 2.21's types that have no parser here: one of them is no slip of the pen.
_OTHER_TYPES = """
    activemq apache-kafka arangodb artemis-queue aws-cloudwatch aws-dynamodb
    aws-dynamodb-streams aws-kinesis-stream aws-sqs-queue azure-app-insights azure-blob
    azure-cosmosdb azure-data-explorer azure-eventhub azure-log-analytics azure-monitor
    azure-pipelines azure-queue azure-servicebus beanstalkd cassandra clickhouse couchdb datadog
    dynatrace elastic-forecast elasticsearch etcd forgejo-runner gcp-cloudtasks gcp-pubsub
    gcp-spanner gcp-stackdriver gcp-storage github-runner graphite huawei-cloudeye ibmmq influxdb
    kubernetes-resource kubernetes-workload liiklus loki metrics-api mongodb mssql mysql
    nats-jetstream new-relic nsq opensearch openstack-metric openstack-swift postgresql
    predictkube pulsar rabbitmq redis redis-cluster redis-cluster-streams
    redis-sentinel redis-sentinel-streams redis-streams selenium-grid solace-direct-messaging
    solace-event-queue solarwinds solr splunk splunk-observability sumologic temporal
"""

_ONLY_IN_KEDA = frozenset(_OTHER_TYPES.split())


def parse_trigger(
    kind: str, source: TriggerSource
) -> tuple[TriggerParameters, NotSupported | None]:
    """Return the parsed parameters, and what of them only KEDA can do."""
    if (known := TRIGGER_TYPES.get(kind)) is not None:
        parameters: TriggerParameters = known.parse(source)
        return parameters, known.beyond(parameters, source)
    name = f"{source.field}.type"
    here = f"{', '.join(TRIGGER_TYPES)} (the trigger types of the embedded autoscaler)"
    if kind in _ONLY_IN_KEDA:
        allowed = f"{here}: KEDA has {kind}, the embedded autoscaler does not"
        beyond = NotSupported(where=source.where, field=name, value=kind, allowed=allowed)
        if kind == "apache-kafka":  # another client with the same parameters
            with contextlib.suppress(TriggerRefused):
                return parse_kafka_trigger(source), beyond
        return ForeignTrigger(metadata=source.metadata), beyond
    raise TriggerRefused(
        where=source.where,
        field=name,
        value=kind,
        keda_message=f"no scaler found for type: {kind}",
        hint=f"allowed: {here}",
    )
