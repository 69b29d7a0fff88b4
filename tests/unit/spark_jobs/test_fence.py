"""The fence file."""

from __future__ import annotations

import pytest

from lagbench_spark.errors import UnreadableRun
from lagbench_spark.fence import parse_fence


def test_partitions_become_numbers() -> None:
    """Keys and offsets are read as numbers, an absent commit stays None."""
    fence = parse_fence(
        {
            "events": {"0": 10, "1": 5},
            "processed": {"0": 2},
            "telemetry": {"0": 9},
            "committed": {"0": 10, "1": None},
        }
    )

    assert fence.events == {0: 10, 1: 5}
    assert fence.committed == {0: 10, 1: None}
    assert fence.messages == 15
    assert fence.stream_started_at is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"events": {"zero": 1}, "processed": {}, "telemetry": {}, "committed": {}},
        {"events": {"0": None}, "processed": {}, "telemetry": {}, "committed": {}},
        {"events": [1], "processed": {}, "telemetry": {}, "committed": {}},
    ],
)
def test_garbled_fence_is_refused(content: dict[str, object]) -> None:
    """A fence that lacks a part or holds no offsets is rejected."""
    with pytest.raises(UnreadableRun):
        parse_fence(content)
