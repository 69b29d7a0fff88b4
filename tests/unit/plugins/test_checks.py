"""Checks record what speaks against a run and leave the judging to the verdict."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.plugins.conftest import World

from lagbench.results import measure
from lagbench_airflow.operators.checks import RebalanceCountCheckOperator, ReconcileCheckOperator

CLEAN = {
    "produced_acked": 10,
    "in_log": 10,
    "processed_distinct": 10,
    "lost": 0,
    "duplicated": 0,
    "reordered": 0,
    "zombie": 0,
    "not_yet_consumed": 0,
    "produced_twice": 0,
}


def reconcile(world: World, **changes: Any) -> dict[str, Any]:
    """Check an accounting."""
    world.folder.write_json(world.folder.accounting, CLEAN | changes)
    task = ReconcileCheckOperator(task_id="reconcile_check", run_folder=str(world.folder.path))
    return task.execute(world.context)


def test_processed_equals_produced(world: World) -> None:
    """Nothing speaks against a clean run, and checks.json says so."""
    assert reconcile(world)["holds"] is True
    assert world.folder.read_json("checks.json")["reconcile_check"]["holds"] is True


@pytest.mark.parametrize("fault", ["lost", "duplicated", "reordered", "zombie", "produced_twice"])
def test_each_class_counts(world: World, fault: str) -> None:
    """One bad message of any class breaks the claim, without failing the task."""
    result = reconcile(world, **{fault: 1})

    assert (result["holds"], result["against"]) == (False, {fault: 1})


def test_equal_counts_do_not_hide_a_loss(world: World) -> None:
    """One lost and one duplicated message leave the totals equal and are still found."""
    assert reconcile(world, lost=1, duplicated=1)["holds"] is False


def test_acknowledged_but_not_in_the_log(world: World) -> None:
    """A message that the broker acknowledged and does not have speaks against the run."""
    assert reconcile(world, produced_acked=11)["against"] == {"produced_acked": 11}


@pytest.mark.parametrize(
    ("causes", "holds"),
    [
        (["start", "scale_up", "scale_down"], True),
        (["start", "scale_up", "other"], False),
        (["start", "pod_death"], False),
        (["start", *["scale_up"] * 5], False),
    ],
)
def test_rebalances_are_explained_by_scaling(
    world: World, monkeypatch: pytest.MonkeyPatch, causes: list[str], holds: bool
) -> None:
    """Every rebalance has a scale step behind it, and there are no more than moved pods."""
    measures = SimpleNamespace(
        measured_until_at=100,
        rebalances=SimpleNamespace(
            episodes=[SimpleNamespace(trigger=cause, started_at=1) for cause in causes]
            + [SimpleNamespace(trigger="other", started_at=101)]
        ),
        scaling=SimpleNamespace(
            changes=[
                SimpleNamespace(replicas_before=2, replicas_after=4),
                SimpleNamespace(replicas_before=4, replicas_after=2),
            ]
        ),
    )
    monkeypatch.setattr(measure, "measure_run", lambda _: measures)
    task = RebalanceCountCheckOperator(task_id="rebalance", run_folder=str(world.folder.path))

    assert task.execute(world.context)["holds"] is holds
