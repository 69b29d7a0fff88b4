"""librdkafka's settings for a member of the group under test."""

from __future__ import annotations

from typing import Any

from lagbench.programs.consumer.consumer_settings import ConsumerOptions
from pod_program.kafka_settings import RECOVERY, own_settings

# One fetch stays below a thousand 256-byte events per partition, so that a pod holds little that
# the next owner would have to fetch again.
_FETCH_BYTES_PER_PARTITION = 256 * 1024
# What a killed pod leaves open hides what was written after it, for readers of what is committed,
# until the broker ends it. Half of the client's default; longer than a broker's restart.
_TRANSACTION_TIMEOUT_MS = 30_000


def consumer_settings(options: ConsumerOptions) -> dict[str, Any]:
    """Return the consumer's configuration; KIP-848 rejects the classic protocol's settings."""
    settings: dict[str, Any] = {
        **own_settings(options.bootstrap_servers),
        "client.id": options.pod_name,
        "group.id": options.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": options.commit == "auto",
        # auto: what most people run. An offset counts as read when it was handed over, done or not.
        "enable.auto.offset.store": options.commit == "auto",
        "auto.commit.interval.ms": round(options.commit_interval_seconds * 1000),
        # A fetch that waits for idle partitions delays a newly assigned one by this long.
        "fetch.wait.max.ms": 50,
        "fetch.queue.backoff.ms": 10,  # default 1 s: a short prefetch queue would starve
        "fetch.error.backoff.ms": 100,
        "max.partition.fetch.bytes": _FETCH_BYTES_PER_PARTITION,
        "queued.min.messages": 1000,
        "queued.max.messages.kbytes": 4096,
        **RECOVERY,
        "log_level": 4,
    }
    if options.instance_id:
        settings["group.instance.id"] = options.instance_id
    if options.is_next_generation:
        settings["group.protocol"] = "consumer"
        return settings
    settings |= {
        "group.protocol": "classic",
        "partition.assignment.strategy": options.balancer,
        "session.timeout.ms": options.session_timeout_ms,
        # Members learn of a rebalance from the next heartbeat: 0.2 s a step.
        "heartbeat.interval.ms": 200,
    }
    return settings


def ledger_settings(options: ConsumerOptions) -> dict[str, Any]:
    """Return the ledger producer's configuration: in order, once, patient through an outage."""
    settings: dict[str, Any] = {
        **own_settings(options.bootstrap_servers),
        "client.id": f"{options.pod_name}-ledger",
        "enable.idempotence": True,
        "linger.ms": 5,
        "compression.type": "lz4",
        **RECOVERY,
        "log_level": 4,
    }
    if options.is_transactional:
        # A container that is started again in its pod takes over, and ends, what it left open.
        settings["transactional.id"] = f"{options.group}.{options.pod_name}"
        settings["transaction.timeout.ms"] = _TRANSACTION_TIMEOUT_MS
    else:
        settings["message.timeout.ms"] = 300_000
    return settings
