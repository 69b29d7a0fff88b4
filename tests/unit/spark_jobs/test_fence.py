"""The fence file."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from lagbench_spark.errors import UnreadableRun
from lagbench_spark.fence import await_fence, parse_fence


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


class LateFence:
    """A run folder that has its fence at the third look."""

    looks = 0

    def has(self, name: str) -> bool:
        """Count the look."""
        self.looks += 1
        return name == "fence.json" and self.looks > 2


def test_a_job_that_was_begun_early_waits_for_the_fence() -> None:
    """It looks again until the file is there."""
    folder: Any = LateFence()

    await_fence(folder, holder=os.getpid())

    assert folder.looks == 3


def test_a_job_ends_with_the_run_that_it_waits_for() -> None:
    """A run that failed before its fence leaves no Spark behind."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    folder: Any = LateFence()

    with pytest.raises(UnreadableRun, match="before its fence"):
        await_fence(folder, holder=ended.pid)
