"""Name the ways in which a group assigns its partitions, and how long it keeps a dead member."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Balancer = Literal["range", "roundrobin", "cooperative-sticky", "consumer"]
"""``consumer`` is KIP-848: the broker assigns."""
RebalanceProtocol = Literal["eager", "cooperative", "consumer"]
"""``eager``: every member gives up all its partitions; else a rebalance moves single ones."""
_PROTOCOLS: Mapping[str, RebalanceProtocol] = {
    "range": "eager",
    "roundrobin": "eager",
    "cooperative-sticky": "cooperative",
    "consumer": "consumer",
}
CLASSIC_SESSION_SECONDS = 10.0
"""The default of lagbench's own consumer (``--session-timeout-ms``), for the classic protocols."""
BROKERS_SESSION_SECONDS = 45.0
"""Kafka's default of group.consumer.session.timeout.ms, used by the new protocol."""
CLIENTS_SESSION_SECONDS = 45.0
"""Kafka's default of ``session.timeout.ms``: a dead member of other code stays that long."""
LONGEST_SESSION_SECONDS = max(CLASSIC_SESSION_SECONDS, BROKERS_SESSION_SECONDS)
"""The longest session of lagbench's own members."""


def rebalance_protocol(balancer: str) -> RebalanceProtocol | None:
    """Return how ``balancer`` hands partitions over; None for an unknown name."""
    return _PROTOCOLS.get(balancer)


def rejected_move(before: Balancer, after: Balancer) -> str | None:
    """Return why a live group cannot move between balancers pod by pod; None: it can.

    Source: tests/integration/test_moved_group.py, on a real broker with librdkafka.
    """
    if before in (after, "consumer"):
        return None
    if after == "consumer":
        if before == "cooperative-sticky":
            return "librdkafka puts user data into assignments, which the broker would lose"
        return None
    return "its members name one balancer only, so old and new ones have none in common"
