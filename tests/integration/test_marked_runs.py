"""A run of scenario_run that a user marks as failed, as Airflow's scheduler ends it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.fakes.user_environment import user_environment

from lagbench.project import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CLEANING = ["remove_workloads", "bench_down"]


def end_of(*arguments: str) -> tuple[list[str], str, dict[str, Any]]:
    """Return the tasks after the mark, the state of the run, and what its page says."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.marked_run", *arguments],
        cwd=PROJECT_ROOT,
        env=user_environment() | {"PYTHONPATH": str(PROJECT_ROOT / "plugins")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    after, state, page = json.loads(done.stdout.splitlines()[-1])
    return after, state, page


@pytest.mark.parametrize(
    ("marked_before", "cleaning"),
    [("plan_cell", []), ("bench_up", []), ("create_topics", CLEANING), ("inject_spike", CLEANING)],
)
def test_a_run_that_is_marked_as_failed_ends_as_failed(
    marked_before: str, cleaning: list[str]
) -> None:
    """Its last task runs, also if nothing had been started and so nothing is cleaned up."""
    after, state, page = end_of(marked_before)

    assert after == [*cleaning, "require_verdict"]
    assert state == "failed"
    is_planned = marked_before != "plan_cell"
    assert page == {"has_ended": True, "is_planned": is_planned, "problems": {}}


@pytest.mark.parametrize(
    ("task", "failure", "said"),
    [
        ("plan_cell", "seed = x", "seed = x"),
        ("approve", "", "it never started"),  # rejected
        ("bench_up", "", "it never started"),
    ],
)
def test_the_page_of_a_failed_run_names_the_task(task: str, failure: str, said: str) -> None:
    """With the message that it left, or how it ended without one; not what fails after it."""
    _, state, page = end_of(task, failure)

    assert (state, page["has_ended"], [*page["problems"]]) == ("failed", True, [task])
    assert page["problems"][task].startswith(said)
