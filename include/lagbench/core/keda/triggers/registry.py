"""Which trigger types a ScaledObject may hold here.

A new type has a module of its own with its ``TriggerType`` and a line in ``TRIGGER_TYPES``; the
live autoscaler has a scaler for it (``programs/autoscaler/sources``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.core.keda.triggers.cron import CRON
from lagbench.core.keda.triggers.external import EXTERNAL, EXTERNAL_PUSH
from lagbench.core.keda.triggers.kafka import KAFKA
from lagbench.core.keda.triggers.prometheus import PROMETHEUS
from lagbench.core.keda.triggers.resource import CPU, MEMORY
from lagbench.core.keda.triggers.trigger_type import TriggerParameters, TriggerSource, TriggerType

TRIGGER_TYPES: Mapping[str, TriggerType[Any]] = {
    known.name: known for known in (KAFKA, EXTERNAL, EXTERNAL_PUSH, CRON, CPU, MEMORY, PROMETHEUS)
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


def parse_trigger(kind: object, source: TriggerSource) -> TriggerParameters:
    """Return the parsed parameters; a type that is only KEDA's is ``NotSupported``."""
    known = TRIGGER_TYPES.get(str(kind))
    if known is not None:
        parameters: TriggerParameters = known.parse(source)
        return parameters
    name = f"{source.field}.type"
    here = f"{', '.join(TRIGGER_TYPES)} (the trigger types of the embedded autoscaler)"
    if kind in _ONLY_IN_KEDA:
        allowed = f"{here}: KEDA has {kind}, the embedded autoscaler does not"
        raise NotSupported(where=source.where, field=name, value=kind, allowed=allowed)
    raise TriggerRefused(
        where=source.where,
        field=name,
        value=kind,
        keda_message=f"no scaler found for type: {kind}",
        hint=f"allowed: {here}",
    )
