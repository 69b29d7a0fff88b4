"""Name the ways in which a group assigns its partitions."""

from __future__ import annotations

from typing import Literal

Balancer = Literal["range", "roundrobin", "cooperative-sticky", "consumer"]
"""``consumer`` is KIP-848: the broker assigns."""
