"""How each balancer hands partitions over."""

from __future__ import annotations

from typing import get_args

import pytest

from lagbench.core.scenario import Balancer, rebalance_protocol


@pytest.mark.parametrize(
    ("balancer", "protocol"),
    [
        ("range", "eager"),
        ("roundrobin", "eager"),
        ("cooperative-sticky", "cooperative"),
        ("consumer", "consumer"),
        ("new", None),
    ],
)
def test_protocol_of_each_balancer(balancer: str, protocol: str | None) -> None:
    """Both range and roundrobin stop the world."""
    assert rebalance_protocol(balancer) == protocol


def test_every_balancer_has_a_protocol() -> None:
    """The measures, the simulation and the consumer read the same table."""
    assert None not in {rebalance_protocol(balancer) for balancer in get_args(Balancer)}
