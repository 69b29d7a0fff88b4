"""A task that Airflow kills ends at once, so that it creates nothing beside the teardown."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.plugins.conftest import World

from lagbench.project import PROJECT_ROOT
from lagbench_airflow import bench_life
from lagbench_airflow import bench_life as run_topics
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator
from lagbench_airflow.task_life import TaskKilled, ends_when_killed

from airflow.dag_processing.dagbag import DagBag  # isort: skip


@pytest.fixture
def on_kill() -> Iterator[list[str]]:
    """Stand in for the handler of Airflow's task runner, which calls ``on_kill`` and returns."""
    calls: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: calls.append("on_kill"))
    yield calls
    signal.signal(signal.SIGTERM, before)


class ApplyWhenKilled(CellOperator):
    """Is killed just before it applies an object."""

    is_measured = False

    def act(self, cell: CellRun, context: Any) -> dict[str, Any]:
        """Apply an object."""
        signal.raise_signal(signal.SIGTERM)
        context["applied"].append("consumer")
        return {}


def states(world: World, phase: str) -> list[str]:
    """Return what the run's phases say of one."""
    lines = map(json.loads, world.folder.read_text(world.folder.phases).splitlines())
    return [line["state"] for line in lines if line["name"] == phase]


def test_a_killed_operator_creates_nothing_more(world: World, on_kill: list[str]) -> None:
    """It calls its hook, ends there, and its phase has failed."""
    applied: list[str] = []
    operator = ApplyWhenKilled(task_id="apply", run_folder=str(world.folder.path))

    with pytest.raises(TaskKilled):
        operator.execute({"applied": applied})  # type: ignore[typeddict-unknown-key]

    assert (applied, on_kill) == ([], ["on_kill"])
    assert states(world, "apply") == ["started", "failed"]


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("bench_up", (bench_life, "bring_bench_up")),
        ("create_topics", (run_topics, "create_run_topics")),
    ],
)
def test_a_killed_setup_creates_nothing_more(
    world: World,
    on_kill: list[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    work: tuple[Any, str],
) -> None:
    """The setups are functions, not operators, and end as those do."""
    cell = DagBag(str(PROJECT_ROOT / "dags" / "scenario_run.py")).dags["scenario_run"]
    monkeypatch.setattr(*work, lambda *_, **__: signal.raise_signal(signal.SIGTERM))
    setup: Any = cell.get_task(name)

    with pytest.raises(TaskKilled):
        setup.python_callable(run_folder=str(world.folder.path))

    assert on_kill == ["on_kill"]
    assert states(world, name) == ["started", "failed"]


def test_only_the_first_signal_ends_the_body(on_kill: list[str]) -> None:
    """A second one does not cut off how the body ends; then Airflow's handler is in place again."""
    airflows = signal.getsignal(signal.SIGTERM)
    ended = []

    def body() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            ended.append("in order")

    with pytest.raises(TaskKilled), ends_when_killed():
        body()

    assert (ended, on_kill) == (["in order"], ["on_kill", "on_kill"])
    assert signal.getsignal(signal.SIGTERM) is airflows
