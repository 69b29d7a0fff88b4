"""A run of scenario_run that a user marks as failed, as Airflow's scheduler ends it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.fakes.user_environment import user_environment

from lagbench.project import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLEANING = ["remove_workloads", "bench_down"]


@pytest.mark.parametrize(
    ("marked_before", "cleaning"),
    [("plan_cell", []), ("bench_up", []), ("create_topics", CLEANING), ("inject_spike", CLEANING)],
)
def test_a_run_that_is_marked_as_failed_ends_as_failed(
    marked_before: str, cleaning: list[str]
) -> None:
    """Its last task runs, also if nothing had been started and so nothing is cleaned up."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.marked_run", marked_before],
        cwd=PROJECT_ROOT,
        env=user_environment(),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    after, state, page = json.loads(done.stdout.splitlines()[-1])
    assert after == [*cleaning, "require_verdict"]
    assert state == "failed"
    is_planned = marked_before != "plan_cell"
    assert page == {"has_ended": True, "is_planned": is_planned, "problems": {}}
