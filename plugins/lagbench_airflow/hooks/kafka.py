"""The Kafka of the bench, from a connection in the Kafka provider's layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.kafka_lag import (
    open_admin,
    read_group_lag,
    read_offsets,
    read_partitions,
)
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.errors import LagbenchError, NotReady
from pod_program.kafka_settings import refuse_code


class LagReader:
    """The lag of consumer groups, read over connections that are kept until ``close``."""

    def __init__(self, settings: Mapping[str, Any], *, awaits_transactions: bool) -> None:
        """Take librdkafka's settings; no request is sent yet."""
        self._client = open_admin(
            str(settings["bootstrap.servers"]), settings, awaits_transactions=awaits_transactions
        )

    def offsets(self, group: str, topic: str) -> dict[int, PartitionOffsets]:
        """Return end and committed offset of every partition of ``topic``."""
        return read_group_lag(self._client, group, topic)

    def lags(self, group: str, topic: str) -> dict[int, int]:
        """Return the messages of each partition that the group has not committed yet.

        Without a commit all messages that the partition still keeps count. A commit beyond the end
        (read after it, or of a topic that was created again) counts as 0: a negative lag would hide
        the lag of another partition.
        """
        places = [(topic, number) for number in read_partitions(self._client, topic)]
        found = read_offsets(self._client, group, places, wants_earliest=_is_uncommitted)
        return {place[1]: _lag(place, offsets) for place, offsets in found.items()}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _is_uncommitted(offsets: PartitionOffsets) -> bool:
    return offsets.committed is None


def _lag(place: tuple[str, int], offsets: PartitionOffsets) -> int:
    begin = offsets.earliest if offsets.committed is None else offsets.committed
    if offsets.end is None or begin is None:
        raise NotReady(f"the offsets of {place[0]} partition {place[1]} are unknown")
    return max(offsets.end - begin, 0)


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

    def open_lag_reader(self, *, awaits_transactions: bool = False) -> LagReader:
        """Return a reader of the lag of groups, to be closed."""
        return LagReader(self.settings(), awaits_transactions=awaits_transactions)

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
