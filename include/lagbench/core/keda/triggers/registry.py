"""Which trigger types a ScaledObject may hold here, and how each is parsed.

A new type adds a parser to ``TRIGGER_PARSERS`` and a scaler to the live autoscaler.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lagbench.core.keda.refusals import BenchRefused, TriggerRefused
from lagbench.core.keda.triggers.cron import CronTrigger, parse_cron_trigger
from lagbench.core.keda.triggers.external import ExternalTrigger, parse_external_trigger
from lagbench.core.keda.triggers.kafka import KafkaTrigger, parse_kafka_trigger
from lagbench.core.keda.triggers.resource import Resource, ResourceTrigger, parse_resource_trigger

TriggerParameters = KafkaTrigger | CronTrigger | ResourceTrigger | ExternalTrigger
RESOURCE_TYPES = ("cpu", "memory")
_SPOKEN_SASL = ("none", "plaintext", "scram_sha256", "scram_sha512")

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
    predictkube prometheus pulsar rabbitmq redis redis-cluster redis-cluster-streams
    redis-sentinel redis-sentinel-streams redis-streams selenium-grid solace-direct-messaging
    solace-event-queue solarwinds solr splunk splunk-observability sumologic temporal
"""
_ONLY_IN_KEDA = frozenset(_OTHER_TYPES.split())


@dataclass(frozen=True, slots=True)
class TriggerSource:
    """One trigger as written, and what surrounds it; ``auth`` None: not known yet."""

    metadata: Mapping[str, str] = dataclasses.field(repr=False)
    where: str
    field: str
    metric_type: str = ""
    auth: Mapping[str, str] | None = dataclasses.field(default=None, repr=False)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


def _parse_kafka(source: TriggerSource) -> KafkaTrigger:
    trigger = parse_kafka_trigger(
        source.metadata,
        where=source.where,
        field=f"{source.field}.metadata",
        auth=source.auth,
        environment=source.environment,
        is_auth_known=source.auth is not None,
    )
    if trigger.security.sasl not in _SPOKEN_SASL:
        raise BenchRefused(
            where=source.where,
            field=f"{source.field}.metadata.sasl",
            value=trigger.security.sasl,
            allowed=f"{', '.join(_SPOKEN_SASL)}: KEDA speaks it too, this bench's scaler does not",
        )
    return trigger


def _parse_cron(source: TriggerSource) -> CronTrigger:
    return parse_cron_trigger(source.metadata, where=source.where, field=f"{source.field}.metadata")


def _resource_parser(resource: Resource) -> Callable[[TriggerSource], ResourceTrigger]:
    def parse(source: TriggerSource) -> ResourceTrigger:
        return parse_resource_trigger(
            resource,
            source.metadata,
            metric_type=source.metric_type,
            where=source.where,
            field=f"{source.field}.metadata",
        )

    return parse


def _external_parser(*, is_push: bool) -> Callable[[TriggerSource], ExternalTrigger]:
    def parse(source: TriggerSource) -> ExternalTrigger:
        return parse_external_trigger(
            source.metadata,
            is_push=is_push,
            where=source.where,
            field=f"{source.field}.metadata",
            auth=source.auth,
            environment=source.environment,
        )

    return parse


TRIGGER_PARSERS: Mapping[str, Callable[[TriggerSource], TriggerParameters]] = {
    "kafka": _parse_kafka,
    "external": _external_parser(is_push=False),
    "external-push": _external_parser(is_push=True),
    "cron": _parse_cron,
    "cpu": _resource_parser("cpu"),
    "memory": _resource_parser("memory"),
}


def parse_trigger(kind: object, source: TriggerSource) -> TriggerParameters:
    """Return the parsed parameters; a type that is only KEDA's is ``BenchRefused``."""
    parser = TRIGGER_PARSERS.get(str(kind))
    if parser is not None:
        return parser(source)
    name = f"{source.field}.type"
    here = f"{', '.join(TRIGGER_PARSERS)} (the trigger types of the embedded autoscaler)"
    if kind in _ONLY_IN_KEDA:
        allowed = f"{here}: KEDA has {kind}, the embedded autoscaler does not"
        raise BenchRefused(where=source.where, field=name, value=kind, allowed=allowed)
    raise TriggerRefused(
        where=source.where,
        field=name,
        value=kind,
        keda_message=f"no scaler found for type: {kind}",
        hint=f"allowed: {here}",
    )
