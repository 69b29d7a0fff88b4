"""The Kafka of the bench, from a connection in the Kafka provider's layout."""

from __future__ import annotations

from typing import Any, cast

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.kafka_lag import LagClient, open_admin
from lagbench.errors import LagbenchError, NotReady
from pod_program.kafka_settings import refuse_code


class KafkaHook(BaseHook):
    """Reads a connection of type ``kafka``: librdkafka settings in ``extra``.

    The layout is the Kafka provider's, so adopting that provider later changes no connection.
    """

    conn_name_attr = "kafka_conn_id"
    default_conn_name = "kafka_default"
    conn_type = "kafka"
    hook_name = "Kafka of the bench"

    def __init__(self, kafka_conn_id: str = default_conn_name) -> None:
        """Keep the name of the connection; it is read when needed."""
        super().__init__()
        self.kafka_conn_id = kafka_conn_id

    def settings(self) -> dict[str, Any]:
        """Return the librdkafka settings of the connection."""
        found = connection(self.kafka_conn_id, "kafka")
        settings = cast("dict[str, Any]", found.extra_dejson)
        if not settings.get("bootstrap.servers"):
            raise NotReady(
                f"the connection {self.kafka_conn_id} has no bootstrap.servers in its extra "
                f"(seen: {sorted(settings)}); add them"
            )
        refuse_code(settings, where=f"connection {self.kafka_conn_id}")
        return settings

    @property
    def bootstrap_servers(self) -> str:
        """Return the servers to which clients connect first."""
        return str(self.settings()["bootstrap.servers"])

    def open_lag_reader(self, *, awaits_transactions: bool = False) -> LagClient:
        """Return a reader of the lag of groups, to be closed."""
        settings, servers = self.settings(), self.bootstrap_servers
        return open_admin(servers, settings, awaits_transactions=awaits_transactions)

    def get_conn(self) -> KafkaAdmin:
        """Return an administrator of the cluster."""
        return KafkaAdmin(self.settings())

    def test_connection(self) -> tuple[bool, str]:
        """Ask the cluster for its brokers (the Test button of the UI)."""
        try:
            count = self.get_conn().check_reachable()
        except LagbenchError as error:
            return False, str(error)
        return True, f"{count} broker(s) answered"


EXAMPLES = {
    "kafka": 'extra {"bootstrap.servers": "HOST:PORT"}',
    "kubernetes": 'extra {"kube_config_path": "PATH"}',
    "spark": 'host "local[2]", spark://HOST:PORT or k8s://https://HOST:PORT',
}


def connection(name: str, sort: str) -> Any:
    """Return a connection of a sort: kafka, kubernetes or spark."""
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise NotReady(
            f"the connection {name} is not defined. Bring the bench up (lagbench up) and start "
            f"Airflow through lagbench (lagbench ui), or define it with {EXAMPLES[sort]}"
        ) from error
