"""What the doctor says of a machine."""

from __future__ import annotations

from lagbench.catalog import list_scenarios
from lagbench.embedded.doctor import scenarios_carried


def test_scenarios_that_a_machine_cannot_carry_are_named() -> None:
    """One core is too little for the largest scenario, and enough for the smallest."""
    found = scenarios_carried(1)

    assert found.status == "warn"
    assert "standard_spike" in found.seen
    assert "steady" not in found.seen


def test_a_machine_that_carries_all_is_told_so() -> None:
    """With cores to spare nothing is named."""
    found = scenarios_carried(64)

    assert found.status == "ok"
    assert str(len(list_scenarios())) in found.seen
