"""The kinds of consumers: what each takes, and the saw of Spark's published lag."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lagbench.core.scenario.consumer_kind import KINDS
from lagbench.core.scenario.scenario import ConsumerSettings, Slos
from lagbench.core.scenario.spark_consumer import (
    BATCH_OVERHEAD_SECONDS,
    batch_seconds,
    published_lag_seconds,
)

SCENARIO: dict[str, Any] = {
    "name": "one",
    "description": "one",
    "partitions": 6,
    "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 10},
    "policy": "lag-spark",
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_the_table_names_fields_that_are_there(kind: Any) -> None:
    """SLOs that are not asked and settings that are not taken exist under these names."""
    assert set(kind.not_asked) <= set(Slos.model_fields)
    assert set(kind.not_taken) <= set(ConsumerSettings.model_fields)


def test_a_batch_takes_its_overhead_and_its_share_of_the_capacity() -> None:
    """Below the trigger a batch has a trigger's traffic; above it, that of the batch before."""
    assert batch_seconds(2, 500, 1000) == pytest.approx(BATCH_OVERHEAD_SECONDS + 1)
    assert batch_seconds(0.5, 500, 1000) == pytest.approx(BATCH_OVERHEAD_SECONDS / 0.5)
    assert math.isinf(batch_seconds(2, 1000, 1000))


def test_published_lag_is_a_saw_of_batch_and_interval() -> None:
    """At the top of the saw the group shows the end of the batch before the one that ends."""
    seconds = published_lag_seconds(2, 500, 1000)

    assert seconds == pytest.approx(BATCH_OVERHEAD_SECONDS + 1 + 2)
    settings = ConsumerSettings.model_validate({"kind": "spark", "process_ms": 2})
    assert settings.lag_at_rest_seconds(500, 2) == seconds
    assert ConsumerSettings().lag_at_rest_seconds(500, 2) == 1.0
