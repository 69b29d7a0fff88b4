"""The id of a run and the names made from it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lagbench.core.scenario.run_names import RunNames, new_run_id

AT = datetime(2026, 11, 21, 22, 5, 9, tzinfo=UTC)


def test_an_id_says_what_and_when() -> None:
    """The id is the scenario, the UTC instant and the digits that make it unique."""
    run_id = new_run_id("quick_spike", planned_at=AT, unique_digits="0a1b")

    assert run_id == "quick-spike-20261121-220509-0a1b"


@pytest.mark.parametrize("name", ["a" * 27 + "_b", "a" * 40, "a_", "a" * 26 + "__b"])
def test_every_scenario_gets_an_id_that_kubernetes_takes(name: str) -> None:
    """A name that is cut behind a word leaves no second dash before the instant."""
    run_id = new_run_id(name, planned_at=AT, unique_digits="0a1b")

    assert "--" not in run_id
    assert RunNames(run_id).run_id == run_id
