"""What a run is doing, in words."""

import ast
from pathlib import Path

import pytest

from lagbench.core.live.live_line import LiveSpike
from lagbench.core.live.run_state import late_commit, state_of
from lagbench.project import PROJECT_ROOT

SPIKES = [LiveSpike(start_seconds=10, end_seconds=30), LiveSpike(start_seconds=50, end_seconds=70)]


@pytest.mark.parametrize(
    ("second", "spikes", "state"),
    [
        (None, SPIKES, "starting the load"),
        (9.9, SPIKES, "base load before the spike"),
        (10, SPIKES[:1], "spike, 0 of 20 s"),
        (22.4, SPIKES, "spike 1 of 2, 12 of 20 s"),
        (30, SPIKES, "between two spikes"),
        (69, SPIKES, "spike 2 of 2, 19 of 20 s"),
        (70, SPIKES, "base load after the spike"),
        (80, SPIKES, "draining"),
        (40, [], "under load"),
    ],
)
@pytest.mark.parametrize("task", ["lag_builds_up", "traffic_finished"])
def test_under_load_the_stream_decides(
    task: str, second: float | None, spikes: list[LiveSpike], state: str
) -> None:
    """A task that waits for the traffic's end does not make it the traffic's end."""
    assert state_of(task, second=second, spikes=spikes, planned_seconds=80) == state


def test_each_task_of_a_rehearsal_has_a_state() -> None:
    """None is shown by its name."""
    source = Path(PROJECT_ROOT / "dags" / "scenario_run.py").read_text()
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)]
    tasks = [
        str(one.value.value)
        for one in calls
        if one.arg == "task_id" and isinstance(one.value, ast.Constant)
    ]

    assert len(tasks) > 15
    assert [task for task in tasks if state_of(task) == task.replace("_", " ")] == []


WAITS = "no commit for 30 s, 122 messages uncommitted: commit when idle"


@pytest.mark.parametrize(
    ("idle", "lag", "waited", "most", "said"),
    [
        (29.9, 122, 30, 900, ""),
        (40, 0, 40, 900, ""),
        (40, None, 40, 900, ""),
        (30, 122, 30, 900, f"{WAITS}, or wait up to 870 s"),
        (59, 122, 59, 900, f"{WAITS}, or wait up to 870 s"),
        (59, 122, 2, 900, f"{WAITS}, or wait up to 900 s"),  # the wait began after the commit
        (31, 122, 80, 75, f"{WAITS}, or wait up to 0 s"),
        (31, 122, 31, None, WAITS),
    ],
)
def test_a_late_commit_is_told_each_half_minute(
    idle: float, lag: int | None, waited: float, most: float | None, said: str
) -> None:
    """What is waited for, how long it may last, and what to do; in between nothing changes."""
    assert late_commit(idle, lag, waited_seconds=waited, most_seconds=most) == said
