"""The cost of a message as the scenario states it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from lagbench.core.scenario.process_cost import LognormalCost
from lagbench.core.scenario.scenario import ConsumerSettings

LOGNORMAL = {"kind": "lognormal", "mean_ms": 20, "p99_ms": 80}
MIXTURE = {"kind": "mixture", "parts": [{"share": 0.9, "ms": 1}, {"share": 0.1, "ms": 51}]}


@pytest.mark.parametrize(
    ("settings", "mean_ms", "rate"),
    [
        ({"process_ms": 2, "concurrency": 8}, 2, 4000),
        ({"process_ms": LOGNORMAL}, 20, 50),
        ({"process_ms": MIXTURE, "concurrency": 3}, 6, 500),
        ({"process_ms": 6, "cpu_ms": 4}, 10, 100),
        ({"process_ms": 6, "cpu_ms": 4, "concurrency": 8}, 10, 250),
        ({"process_ms": 0}, 0, None),
    ],
)
def test_a_pod_does_its_slots_over_the_mean_cost_and_burns_one_core(
    settings: dict[str, Any], mean_ms: float, rate: float | None
) -> None:
    """The rate is concurrency over the mean of CPU time and wait, at most one core of CPU time."""
    found = ConsumerSettings.model_validate(settings)

    assert found.message_ms == pytest.approx(mean_ms)
    assert found.pod_rate_per_second == (rate if rate is None else pytest.approx(rate))


def test_a_lognormal_has_the_mean_and_the_percentile_that_it_states() -> None:
    """Of the two solutions it takes the one with the smaller deviation."""
    cost = LognormalCost(kind="lognormal", mean_ms=20, p99_ms=80)

    assert math.exp(cost.mu + cost.sigma**2 / 2) == pytest.approx(20)
    assert math.exp(cost.mu + 2.3263478740408408 * cost.sigma) == pytest.approx(80)
    assert 0 < cost.sigma < 1


@pytest.mark.parametrize(
    "cost",
    [
        -1,
        60_001,
        {"mean_ms": 20},
        {"kind": "normal", "mean_ms": 20},
        {"kind": "lognormal", "mean_ms": 20},
        {"kind": "lognormal", "mean_ms": 20, "p99_ms": 20},
        {"kind": "lognormal", "mean_ms": 1, "p99_ms": 15},
        {"kind": "mixture", "parts": []},
        {"kind": "mixture", "parts": [{"share": 0.9, "ms": 1}]},
    ],
)
def test_a_cost_that_no_message_can_have_is_rejected(cost: Any) -> None:
    """Bounds hold, shares sum to 1, and a percentile fits its mean."""
    with pytest.raises(ValidationError):
        ConsumerSettings.model_validate({"process_ms": cost})
