"""Open enough connections to one Kafka cluster that librdkafka keeps all coordinators.

librdkafka keeps the coordinators of 10 groups only; with an 11th it looks one up before every
OffsetFetch. So each connection serves 10 groups: measured with 50 groups, 51 requests for a sample
instead of 92.

A client that requested committed offsets while its broker was unreachable never receives any again,
even when the broker is back (librdkafka 2.16 with Kafka 4.3: each request times out, those of a new
client are answered). So a client without an answer is replaced.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lagbench.errors import NotReady

GROUPS_PER_CONNECTION = 10
_STATISTICS_MS = 2_000

# librdkafka prints each refused connection to standard error; the errors raised here say it once.
SILENT = logging.getLogger("lagbench.librdkafka")

SILENT.addHandler(logging.NullHandler())

SILENT.propagate = False


class KafkaConnections:
    """Admin clients of one cluster, opened when they are needed."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take librdkafka settings (addresses, TLS, SASL); connecting is lazy.

        :raises NotReady: librdkafka rejects the settings, for example a missing key file.
        """
        self._settings = dict(settings)
        self._groups: dict[str, int] = {}
        self._free: list[int] = []
        self._sent: dict[int, int] = {}
        self._sent_by_replaced = 0
        self._doubtful: set[int] = set()
        self._lock = threading.Lock()
        self._clients = [self._connect(0)]

    @property
    def first(self) -> AdminClient:
        """The connection for what belongs to no group."""
        return self._clients[0]

    @property
    def requests(self) -> int:
        """Number of requests to brokers, as librdkafka counts them; 2 s late."""
        with self._lock:
            return self._sent_by_replaced + sum(self._sent.values())

    def of_group(self, group: str) -> AdminClient:
        """Return the connection that is always used for this group."""
        if group not in self._groups:
            self._groups[group] = self._free.pop() if self._free else len(self._groups)
        number = self._groups[group] // GROUPS_PER_CONNECTION
        while len(self._clients) <= number:
            self._clients.append(self._connect(len(self._clients)))
        return self._clients[number]

    def forget(self, group: str) -> None:
        """Give the place of a group to the next new one."""
        number = self._groups.pop(group, None)
        if number is not None:
            self._free.append(number)

    def doubt(self, client: AdminClient) -> None:
        """Note that a client got no answer."""
        self._doubtful.add(next(n for n, known in enumerate(self._clients) if known is client))

    def serve(self) -> None:
        """Take in what librdkafka has counted meanwhile; replace the doubtful clients.

        To be called while no request is under way.
        """
        for client in self._clients:
            client.poll(0)
        for number in self._doubtful:
            self._clients[number] = self._connect(number)
            with self._lock:
                self._sent_by_replaced += self._sent.pop(number, 0)
        self._doubtful.clear()

    def close(self) -> None:
        """Close all connections (librdkafka does so when the object is deleted)."""
        self._clients.clear()

    def _connect(self, number: int) -> AdminClient:
        def take_statistics(text: str) -> None:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                sent = sum(int(broker["tx"]) for broker in json.loads(text)["brokers"].values())
                with self._lock:
                    self._sent[number] = sent

        settings = {
            "client.id": "lagbench-lag-scaler",
            # Not RECOVERY: each connection would have one more request every 10 s, and they count.
            "reconnect.backoff.max.ms": 1_000,
            "socket.connection.setup.timeout.ms": 5_000,
            "statistics.interval.ms": _STATISTICS_MS,
            "stats_cb": take_statistics,
            **self._settings,
        }
        try:
            return AdminClient(settings, logger=SILENT)
        except KafkaException as error:
            raise NotReady(f"cannot open a connection to Kafka: {spoken(error)}") from error


def spoken(error: Exception) -> str:
    """Return an error's reason as librdkafka words it, without the settings it was given."""
    reason = error.args[0] if error.args else error
    return str(reason.str() if hasattr(reason, "str") else reason)


RECOVERY: dict[str, Any] = {
    "topic.metadata.refresh.interval.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
}
"""For each client that must outlive an outage; partitions added during a run are seen, too."""
