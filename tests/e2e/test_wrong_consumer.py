"""A rehearsal of an own consumer with a fault, judged by what it wrote."""

from __future__ import annotations

import pytest

from tests.e2e.rehearsal import DATA, POLICY, Rehearsal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SCENARIO = DATA / "scenarios" / "tiny_own.yaml"


def test_a_consumer_that_commits_before_it_works_loses_at_a_kill(rehearsal: Rehearsal) -> None:
    """SIGKILL in mid-batch: its committed messages have no result, and are named lost."""
    kill = "actions=[{kind: kill_pod, at_seconds: 5}]"
    code = rehearsal.finish(rehearsal.start_files(SCENARIO, POLICY, kill))

    accounting = rehearsal.read("accounting.json")
    assert accounting["lost"] > 0, rehearsal.output()
    assert (code, rehearsal.slo("lost")["status"]) == (1, "fail"), rehearsal.output()
