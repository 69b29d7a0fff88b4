"""Checks record what speaks against a run and leave the judging to the verdict."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.run_folder_builder import TABLE_COLUMNS
from tests.unit.plugins.conftest import World

from lagbench.core.measures.accounting.accounting import RECORDED
from lagbench.results import measure
from lagbench.shared_with_spark.message_classes import CLASSES
from lagbench_airflow.operators.checks import ReconcileCheckOperator, RunRebalancesCheckOperator

TOTALS = ("produced_acked", "in_log", "processed_records", "processed_distinct")
CLEAN = dict.fromkeys(RECORDED, 0) | dict.fromkeys(TOTALS, 10)


def reconcile(world: World, **changes: Any) -> dict[str, Any]:
    """Check an accounting, whose table bad_messages has each message that it counts as bad."""
    rows = [{"class": name} for name in CLASSES for _ in range(changes.get(name) or 0)]
    schema = pa.schema(TABLE_COLUMNS["bad_messages"])
    table = world.folder.table("bad_messages")
    table.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), table / "part-0.parquet")
    world.folder.write_json(world.folder.accounting, CLEAN | changes)
    task = ReconcileCheckOperator(task_id="reconcile_check", run_folder=str(world.folder.path))
    return task.execute(world.context)


def test_processed_equals_produced(world: World) -> None:
    """Nothing speaks against a clean run, and checks.json says so."""
    assert reconcile(world)["holds"] is True
    assert world.folder.read_json("checks.json")["reconcile_check"]["holds"] is True


@pytest.mark.parametrize("fault", ["lost", "duplicated", "produced_twice", "not_in_log", "expired"])
def test_each_class_counts(world: World, fault: str) -> None:
    """One bad message of any class breaks the claim, without failing the task.

    Its row in bad_messages is counted: the accounting does not contradict its own list.
    """
    result = reconcile(world, **{fault: 1})

    assert (result["holds"], result["against"]) == (False, {fault: 1})
    assert not [text for text in result["reasons"] if "bad_messages" in text]


def test_equal_counts_do_not_hide_a_loss(world: World) -> None:
    """One lost and one duplicated message leave the totals equal and are still found."""
    assert reconcile(world, lost=1, duplicated=1)["holds"] is False


def test_offsets_that_are_in_no_class_leave_the_claim_open(world: World) -> None:
    """The log had more records before the fence than the accounting found."""
    world.folder.write_json(world.folder.fence, {"events": {"0": 7, "1": 5}})

    result = reconcile(world)

    assert result["holds"] is None
    (reason,) = result["reasons"]
    assert re.findall(r"\d+", reason)[-5:] == ["10", "0", "0", "10", "12"]


def test_acknowledged_but_not_in_the_log(world: World) -> None:
    """A message that the broker acknowledged and does not have speaks against the run."""
    assert reconcile(world, produced_acked=11)["against"] == {"produced_acked": 11}


def test_what_is_not_known_does_not_hold(world: World) -> None:
    """A producer that never finished leaves the claim open."""
    assert reconcile(world, produced_acked=None)["holds"] is None


def test_the_rebalance_check_measures_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the measures that the verdict reads, and records the claim beside the others."""
    monkeypatch.setattr(measure, "measure_run", lambda _: quick_spike_measures())
    task = RunRebalancesCheckOperator(task_id="rebalance", run_folder=str(world.folder.path))

    result = task.execute(world.context)

    assert result["holds"] is True
    assert world.folder.read_json("checks.json") == {"rebalance": result}
