"""The follower is started with what the run's folder and the connection say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.plugins.conftest import SERVERS, World

from lagbench.programs.live.settings import parse_settings
from lagbench_airflow.operators import follow_run
from lagbench_airflow.operators.follow_run import FollowRunOperator


def follow(world: World) -> dict[str, Any]:
    """Run the task."""
    operator = FollowRunOperator(task_id="follow_run", run_folder=str(world.folder.path))
    return operator.execute(world.context)


def test_the_follower_gets_the_run_and_its_owner(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command is one that the program understands."""
    started: list[Sequence[str]] = []
    monkeypatch.setattr(follow_run, "start_detached", lambda c, log: started.append(c) or 7)
    monkeypatch.setattr(follow_run, "airflow_pid", lambda: 4711)

    assert follow(world) == {"follower": 7}
    settings = parse_settings(started[0][3:], {})
    assert settings.run_folder == world.folder.path.absolute()
    assert (settings.bootstrap_servers, settings.owner_pid) == (SERVERS, 4711)


def test_a_run_goes_on_without_its_follower(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No measure needs it, so a machine without room for one more process only gets a warning."""

    def refuse(*_: object, **__: object) -> int:
        raise OSError("no more processes")

    monkeypatch.setattr(follow_run, "start_detached", refuse)

    assert follow(world) == {"follower": None}
