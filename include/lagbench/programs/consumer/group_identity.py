"""Which member of which generation a pod is, for transactions that carry it."""

from __future__ import annotations

import math
import time

from confluent_kafka import Consumer

# The generation may change without a callback (KIP-848), and a stale one aborts a transaction.
_REFRESH_SECONDS = 0.1


class GroupIdentity:
    """Read by the poll thread, used by the worker.

    The client answers for its membership on the polling thread only: asked from another one while
    that polls, confluent-kafka 2.16.1 does not return.
    """

    def __init__(self) -> None:
        """Start without metadata."""
        self.metadata: object = None
        """The argument of ``send_offsets_to_transaction``; None before the first look."""
        self._looked_at = -math.inf

    def refresh(self, consumer: Consumer) -> None:
        """Ask the client (call it from the poll thread)."""
        self.metadata = consumer.consumer_group_metadata()
        self._looked_at = time.monotonic()

    def refresh_if_due(self, consumer: Consumer) -> None:
        """Ask the client unless that was a moment ago."""
        if time.monotonic() - self._looked_at >= _REFRESH_SECONDS:
            self.refresh(consumer)
