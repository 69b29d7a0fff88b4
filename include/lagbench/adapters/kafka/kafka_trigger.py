"""Read what a kafka trigger of KEDA decides by: the offsets of its group's partitions."""

from __future__ import annotations

from collections.abc import Mapping

from lagbench.adapters.kafka.client_settings import own_settings
from lagbench.adapters.kafka.kafka_lag import (
    DEFAULT_TIMEOUT_SECONDS,
    LagClient,
    Place,
    open_admin,
    read_group_topics,
    read_offsets,
    read_partitions,
)
from lagbench.adapters.kafka.kafka_security import security_settings
from lagbench.core.keda.loop.kafka_lag import PartitionOffsets, needs_earliest
from lagbench.core.keda.triggers.kafka import KafkaTrigger, kept_partitions


def open_trigger(trigger: KafkaTrigger, environment: Mapping[str, str] | None = None) -> LagClient:
    """Return a client of the trigger's cluster; nothing is asked yet.

    :param environment: names the file of the bench's settings; None: this process's.
    """
    return open_admin(",".join(trigger.bootstrap_servers), trigger_settings(trigger, environment))


def trigger_settings(
    trigger: KafkaTrigger, environment: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """Return the settings of the trigger's log-in; without one, those of the bench's Kafka."""
    security = trigger.security
    if security.sasl != "none" or security.is_tls:
        return security_settings(security)
    return own_settings(",".join(trigger.bootstrap_servers), environment)


def read_trigger_offsets(
    client: LagClient, trigger: KafkaTrigger, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> dict[Place, PartitionOffsets]:
    """Return the offsets of the partitions that count, in the order of topic and partition.

    :param timeout_seconds: for each request.
    """
    group, topics = trigger.consumer_group, [trigger.topic]
    if not trigger.topic:
        topics = read_group_topics(client, group, timeout_seconds=timeout_seconds)
    places = [
        (topic, partition)
        for topic in topics
        for partition in kept_partitions(
            trigger, topic, read_partitions(client, topic, timeout_seconds=timeout_seconds)
        )
    ]
    return read_offsets(
        client,
        group,
        places,
        wants_earliest=lambda found: needs_earliest(trigger, found),
        timeout_seconds=timeout_seconds,
    )
