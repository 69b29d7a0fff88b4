"""What the doctor says of a machine."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from lagbench.adapters.process.processor_speed import Processor
from lagbench.embedded.doctor import scenarios_carried


def test_scenarios_that_a_machine_cannot_carry_are_named() -> None:
    """One core is too little for the largest scenario, and enough for the smallest."""
    found = scenarios_carried(Processor(cores=1, speed=1.0))

    assert found.status == "warn"
    assert "standard_spike" in found.seen
    assert "steady" not in found.seen


def test_a_slow_processor_carries_less() -> None:
    """Cores of a fifth of the speed do a fifth of the work."""
    fast, slow = (scenarios_carried(Processor(cores=4, speed=speed)) for speed in (1.0, 0.2))

    assert fast.status == "ok"
    assert "standard_spike" in slow.seen


def test_the_memory_of_sparks_jvms_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 2 GiB free the scenario on Spark is named with what its JVMs take; the others fit."""
    free = SimpleNamespace(available=2 * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)

    found = scenarios_carried(Processor(cores=64, speed=1.0))

    assert found.status == "warn"
    assert "spark_consumer (" in found.seen
    assert "GiB for its JVMs" in found.seen
    assert "quick_spike" not in found.seen
