"""Check claims on the run's measures and record the results in ``checks.json``.

The verdict also makes the first check from the measures. The result of the second is a note in the
report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench.core.measures import Check, rebalance_count, reconciliation
from lagbench.core.measures.accounting import accounting_measure
from lagbench.core.scenario import knows_work
from lagbench.core.scenario.stream import failing_seqs
from lagbench.results.run_tables import read_bad_messages
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class ReconcileCheckOperator(CellOperator):
    """Check that every acknowledged message was processed exactly once, by identity.

    After success: ``checks.json`` has the result (null: unknown) and the numbers that contradict
    the claim. The check does not fail the task: the verdict judges, after everything is written.
    Safe to retry.
    """

    is_measured = False

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Compare the accounting's classes with zero and its totals with each other."""
        folder = cell.folder
        found = accounting_measure(
            folder.read_json(folder.accounting),
            read_bad_messages(folder),
            fence=folder.read_json(folder.fence) if folder.fence.exists() else None,
            poisoned_seqs=failing_seqs(cell.scenario),
        )
        level = cell.scenario.consumer.accounting
        check = reconciliation(found, has_work=knows_work(level), is_output=level == "output")
        result = record_check(cell, self.task_id, check)
        self.log.info("processed == produced: %s", result)
        return result


class RunRebalancesCheckOperator(CellOperator):
    """Check that the group rebalanced only because it was scaled.

    After success: ``measures.json`` is written and ``checks.json`` has the result (null: unknown).
    The check does not fail the task. Safe to retry.
    """

    is_measured = False

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Count episodes by their cause."""
        from lagbench.results.measure import measure_run

        result = record_check(cell, self.task_id, rebalance_count(measure_run(cell.folder)))
        self.log.info("rebalances: %s", result)
        return result


def record_check(cell: CellRun, name: str, check: Check) -> dict[str, Any]:
    """Merge one check into ``checks.json`` and return it; the checks run one after the other."""
    result = {"holds": check.holds, **check.numbers, "reasons": list(check.reasons)}
    path = cell.folder.path / "checks.json"
    known = cell.folder.read_json(path) if path.exists() else {}
    cell.folder.write_json(path, {**known, name: result})
    return result
