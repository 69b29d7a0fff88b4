"""Checks: a claim on what the run measured, recorded for the verdict."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

RECONCILED = ("lost", "duplicated", "reordered", "zombie", "not_yet_consumed", "produced_twice")


class ReconcileCheckOperator(CellOperator):
    """Check that every produced message was processed exactly once, by identity.

    After success: ``checks.json`` says whether it holds and which numbers speak against it. It
    does not fail the task: the verdict judges, after everything is written. Safe to retry.
    """

    is_measured = False

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Compare the accounting's classes with zero and its totals with each other."""
        accounting = cell.folder.read_json(cell.folder.accounting)
        against = {name: accounting[name] for name in RECONCILED if accounting[name]}
        if accounting["processed_distinct"] != accounting["in_log"]:
            against["processed_distinct"] = accounting["processed_distinct"]
        produced = accounting["produced_acked"]
        if produced is not None and produced != accounting["in_log"]:
            against["produced_acked"] = produced
        result = {
            "holds": not against,
            "produced": produced,
            "in_log": accounting["in_log"],
            "processed": accounting["processed_distinct"],
            "against": against,
        }
        self.log.info("processed == produced: %s", result)
        return record_check(cell, self.task_id, result)


class RebalanceCountCheckOperator(CellOperator):
    """Check that the group rebalanced only because it was scaled.

    The claim: no rebalance is without a cause or caused by a pod's death, and there are at most as
    many rebalances by scaling as pods were added and removed. ``checks.json`` records the outcome;
    the task does not fail on it. Safe to retry.
    """

    is_measured = False

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Count episodes by their cause."""
        from lagbench.results.measure import measure_run

        measures = measure_run(cell.folder)
        until = measures.measured_until_at
        counted = [
            episode
            for episode in measures.rebalances.episodes
            if until is None or episode.started_at <= until
        ]
        causes = Counter(episode.trigger for episode in counted)
        by_scaling = causes["scale_up"] + causes["scale_down"]
        moved = sum(
            abs(change.replicas_after - change.replicas_before)
            for change in measures.scaling.changes
        )
        result = {
            "holds": by_scaling <= moved and not causes["other"] and not causes["pod_death"],
            "rebalances": len(counted),
            "by_cause": dict(causes),
            "pods_added_or_removed": moved,
        }
        self.log.info("rebalances: %s", result)
        return record_check(cell, self.task_id, result)


def record_check(cell: CellRun, name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Merge one check into ``checks.json`` and return it; the checks run one after the other."""
    path = cell.folder.path / "checks.json"
    known = cell.folder.read_json(path) if path.exists() else {}
    cell.folder.write_json(path, {**known, name: result})
    return result
