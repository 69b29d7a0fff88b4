"""CPU and memory of the bench's own parts."""

from __future__ import annotations

import os
import subprocess
import sys

from lagbench.core.telemetry.recorder import ReadGap, UsageSample
from lagbench.programs.recorder.usage_readings import UsageReading


def test_a_living_process_is_sampled() -> None:
    """The recorder sees itself."""
    (found,) = UsageReading({"recorder": os.getpid()}, source="recorder")(7)

    assert isinstance(found, UsageSample)
    assert found.component == "recorder"
    assert found.cpu_seconds > 0
    assert found.memory_bytes > 1_000_000


def test_a_process_that_ended_is_a_gap() -> None:
    """Its usage is unknown, not zero."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        reading = UsageReading({"broker": child.pid}, source="recorder")
        before = list(reading(7))
    (after,) = reading(8)

    assert isinstance(before[0], UsageSample)
    assert isinstance(after, ReadGap)
    assert after.reason.startswith("broker")
