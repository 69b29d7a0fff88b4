"""What messages cost in one pod."""

from __future__ import annotations

import numpy as np
from tests.unit.programs.consumer.records import chunk

from lagbench.core.scenario.scenario import ConsumerFlags
from lagbench.core.scenario.stream import process_ns
from lagbench.programs.consumer.message_costs import MessageCosts


def test_each_record_of_a_fetch_gets_the_draw_of_its_message() -> None:
    """One draw serves the chunks of all partitions; CPU time comes on top."""
    cost = {"kind": "lognormal", "mean_ms": 20, "p99_ms": 80}
    flags = ConsumerFlags.model_validate({"process_ms": cost, "cpu_ms": 1})
    costs, chunks = MessageCosts.of(flags, seed=5), [chunk(0, 3), chunk(100, 1), chunk(7, 5)]

    costs.draw(chunks)

    assert costs.mean_ns == 21_000_000
    assert costs.distribution is not None
    for each in chunks:
        expected = process_ns(costs.distribution, each.events, seed=5) + 1_000_000
        assert each.costs_ns is not None
        assert np.array_equal(each.costs_ns, expected)


def test_equal_costs_are_not_drawn() -> None:
    """A number is the cost of every message."""
    only = chunk(0, 3)

    MessageCosts.of(ConsumerFlags(process_ms=2), seed=5).draw([only])

    assert only.costs_ns is None
