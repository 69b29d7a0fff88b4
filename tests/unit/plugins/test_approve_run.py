"""Who is asked before a run: a person, for a cluster, where the conf has not answered."""

from __future__ import annotations

import contextlib
import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.unit.plugins.conftest import World

from lagbench_airflow.hooks import target
from lagbench_airflow.operators import approve
from lagbench_airflow.operators.approve import ApproveRunOperator

from airflow.providers.standard.operators import hitl  # isort: skip
from airflow.sdk.exceptions import TaskAwaitingInput  # isort: skip

ASK = {"ask": True, "scenario": "hello"}


@pytest.mark.parametrize(
    ("params", "on_cluster", "has_people", "is_asked"),
    [
        (ASK, True, True, True),
        (ASK, False, True, False),
        (ASK, True, False, False),
        ({**ASK, "ask": False}, True, True, False),
        ({**ASK, "sealed": "x"}, True, True, False),
        ({**ASK, "experiment": "x"}, True, True, False),
    ],
)
def test_a_person_is_asked_before_a_run_against_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
    world: World,
    params: dict[str, Any],
    *,
    on_cluster: bool,
    has_people: bool,
    is_asked: bool,
) -> None:
    """Not on the embedded bench, nor where nobody can answer, nor where one has answered."""
    asked: list[str] = []
    monkeypatch.setattr(target, "is_embedded", lambda: not on_cluster)
    monkeypatch.setattr(approve, "can_be_answered", lambda: has_people)
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **given: asked.append(given["subject"]))
    task = ApproveRunOperator(task_id="approve", subject="Run?", defaults="Reject")
    plan = {"run_id": str(world.folder.path)}
    ti = SimpleNamespace(id=1, xcom_pull=lambda **_: plan)
    context: Any = {"params": params, "ti": ti, "task_instance": ti}

    with pytest.raises(TaskAwaitingInput) if is_asked else contextlib.nullcontext():
        inspect.unwrap(ApproveRunOperator.execute)(task, context)

    assert asked == (["Run?"] if is_asked else [])
