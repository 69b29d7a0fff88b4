"""The metadata of this distribution among Airflow's providers."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

KAFKA = {
    "connection-type": "kafka",
    "hook-class-name": "lagbench_airflow.hooks.kafka.KafkaHook",
    "hook-name": "Kafka (lagbench)",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "login", "password", "host", "port"],
        "relabeling": {"extra": "Settings of librdkafka (JSON)"},
        "placeholders": {"extra": '{"bootstrap.servers": "HOST:PORT"}'},
    },
}
NAME = "lagbench"
OPERATORS = ("apply_scaling_policy", "rebalance_count_check", "run_spark_consumer")
SENSORS = ("consumer_group", "consumer_lag", "replicas")
TRIGGERS = ("conditions", "events")


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata, as ``provider_info.schema.json`` of Airflow wants it.

    The plugin is registered by its own entry point. The connection type is that of Airflow's own
    Kafka provider where that is installed: its connections have the same layout.
    """

    def listed(folder: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
        modules = [f"lagbench_airflow.{folder}.{name}" for name in names]
        return [{"integration-name": NAME, "python-modules": modules}]

    has_kafka = find_spec("airflow.providers.apache.kafka") is not None
    return {
        "package-name": "lagbench-airflow",
        "name": NAME,
        "description": "Rehearse Kafka consumer autoscaling: operators, sensors, events, reports.",
        "integrations": [{"integration-name": NAME, "tags": ["software"]}],
        "operators": listed("operators", OPERATORS),
        "sensors": listed("sensors", SENSORS),
        "hooks": listed("hooks", ("kafka",)),
        "triggers": listed("triggers", TRIGGERS),
        "connection-types": [] if has_kafka else [KAFKA],
        "extra-links": ["lagbench_airflow.links.ReportLink"],
    }
