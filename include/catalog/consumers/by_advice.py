"""The consumer of orders with those points of the advice that ADVICE names, for an experiment.

Without any it does as ``as_documented.py`` with an idempotent producer, with all it is
``after_advice.py``: ``commit`` (after the delivery, each second), ``sigterm`` (settle, leave),
``revoke`` (settle what leaves), ``assignor`` (cooperative-sticky, and a session of 10 s).
"""

from __future__ import annotations

import os
import signal
import threading
from math import inf
from types import MappingProxyType
from typing import Any

import after_advice
from confluent_kafka import Consumer, TopicPartition

ADVICE = frozenset(os.environ["ADVICE"].split())
OF_ADVICE: dict[str, dict[str, Any]] = {
    "commit": after_advice.COMMITS,
    "sigterm": {},
    "revoke": {},
    "assignor": after_advice.MOVES_LITTLE,
}


class Orders(after_advice.Orders):
    """Prices orders; who commits, and when, the advice says."""

    settings = MappingProxyType({k: v for point in ADVICE for k, v in OF_ADVICE[point].items()})
    settle_seconds = after_advice.Orders.settle_seconds if "commit" in ADVICE else inf

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        (super()._revoked if "revoke" in ADVICE else self._lost)(consumer, partitions)


if __name__ == "__main__":
    stopping = threading.Event()
    if "sigterm" in ADVICE:  # without, the signal just ends the process
        signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    Orders().run(stopping)
