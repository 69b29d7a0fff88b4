"""Keep the clients of one wait: a poll must not cost the measured servers a log-in."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
    from lagbench.adapters.kube.kube import Kube
    from lagbench_airflow.hooks.kafka import LagReader


class KeptClients:
    """Opens a client at its first use and keeps it until ``close``; then opens a new one.

    Only one thread at a time may use it, but not always the same one.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self._kubes: dict[str, Kube] = {}
        self._admins: dict[str, KafkaAdmin] = {}
        self._lag_readers: dict[str, LagReader] = {}

    def kube(self, kubernetes_conn_id: str) -> Kube:
        """Return the client for the cluster that the connection names."""
        from lagbench_airflow.hooks.kube import open_kube

        if kubernetes_conn_id not in self._kubes:
            self._kubes[kubernetes_conn_id] = open_kube(kubernetes_conn_id)
        return self._kubes[kubernetes_conn_id]

    def kafka_admin(self, kafka_conn_id: str) -> KafkaAdmin:
        """Return the administrator of the Kafka that the connection names."""
        from lagbench_airflow.hooks.kafka import KafkaHook

        if kafka_conn_id not in self._admins:
            self._admins[kafka_conn_id] = KafkaHook(kafka_conn_id).get_conn()
        return self._admins[kafka_conn_id]

    def lag_reader(self, kafka_conn_id: str) -> LagReader:
        """Return the reader of lag in the Kafka that the connection names."""
        from lagbench_airflow.hooks.kafka import KafkaHook

        if kafka_conn_id not in self._lag_readers:
            self._lag_readers[kafka_conn_id] = KafkaHook(kafka_conn_id).open_lag_reader()
        return self._lag_readers[kafka_conn_id]

    def close(self) -> None:
        """Close all open clients, even if closing one of them fails."""
        with ExitStack() as closing:
            for held in (self._kubes, self._admins, self._lag_readers):
                for client in held.values():
                    closing.callback(client.close)
                held.clear()
