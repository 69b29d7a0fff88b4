"""Create the topics of a run."""

from __future__ import annotations

from lagbench.adapters.kafka.kafka_admin import BROKER_DEFAULT, TopicSpec
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.hooks.kafka import KafkaHook
from lagbench_airflow.hooks.kube import settings_of_cluster

LEDGER_PARTITIONS, TELEMETRY_PARTITIONS = 6, 1
TOPIC_SETTINGS = {
    # Offsets are accounted for by identity, so no record may be dropped or merged during a run,
    # whatever the broker does with other topics: the bench's broker keeps 1 GiB of a partition.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    # Producers wait for all in-sync replicas; a broker that requires two would accept nothing in
    # topics with one.
    "min.insync.replicas": "1",
}
BROKERS_CLOCK = {"message.timestamp.type": "LogAppendTime"}
"""Of an output topic: when its records were written is known by no other clock."""


def create_run_topics(cell: CellRun) -> dict[str, int]:
    """Create the run's topics; a retry finds them and is safe."""
    partitions = {cell.names.events_topic: cell.scenario.partitions}
    for group in cell.groups:
        partitions[group.names.processed_topic] = LEDGER_PARTITIONS
        partitions[group.names.telemetry_topic] = TELEMETRY_PARTITIONS
    factor = settings_of_cluster().replication_factor or BROKER_DEFAULT
    outputs = {g.names.processed_topic for g in cell.groups if g.has_output_topic}
    specs = [
        TopicSpec(
            name,
            count,
            {**TOPIC_SETTINGS, **(BROKERS_CLOCK if name in outputs else {})},
            replication_factor=factor,
        )
        for name, count in partitions.items()
    ]
    with KafkaHook().get_conn() as admin:
        admin.create_topics(specs)
    return partitions
