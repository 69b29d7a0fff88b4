"""The time limit of the accounting follows the run's size."""

from __future__ import annotations

import pytest

from lagbench.core.spark.submission import time_limit_seconds


@pytest.mark.parametrize(
    ("messages", "minutes"), [(0, 20), (1_000_000, 22), (20_000_000, 60), (500_000_000, 1020)]
)
def test_the_limit_follows_the_messages(messages: int, minutes: int) -> None:
    """Twenty minutes for a start, and two for each million messages."""
    assert time_limit_seconds(messages) == minutes * 60
