"""A rehearsal with two consumer groups on the topic, from the command to both reports."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from tests.e2e.rehearsal import Rehearsal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]
SECOND = "second_group={consumer: {process_ms: 5, balancer: range}}"
SHORT = "profile.spike_hold_seconds=10"


def test_both_groups_process_and_are_judged(rehearsal: Rehearsal) -> None:
    """Each group processes the run's events once; the run's verdict is made of both."""
    code = rehearsal.finish(rehearsal.start_run(SECOND, SHORT, "tail=none"))

    run = RunFolder(rehearsal.folder())
    first, second = (_results(group) for group in run.groups)
    assert first["accounting"]["in_log"] == second["accounting"]["in_log"] > 0, rehearsal.output()
    for found in (first, second):
        assert found["accounting"]["processed_distinct"] == found["accounting"]["in_log"]
        assert (found["accounting"]["lost"], found["accounting"]["outside_run"]) == (0, 0)
        assert found["measures"]["group_strangers"] == []
    own = {slo["name"] for slo in second["verdict"]["slos"]}
    of_run = {slo["name"] for slo in first["verdict"]["slos"]}
    assert {f"second_group.{name}" for name in own} == of_run - own
    assert code == {"pass": 0, "fail": 1, "undetermined": 4}[first["verdict"]["status"]]
    assert "second_group/report.html" in run.report.read_text()
    assert all(group.report.is_file() for group in run.groups)


def _results(group: RunFolder) -> dict[str, Any]:
    """Return a group's accounting, measures and verdict."""
    return {
        path.stem: json.loads(path.read_text())
        for path in (group.accounting, group.measures, group.verdict)
    }
