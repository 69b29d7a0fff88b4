"""Measure a run, check two claims that hold for every run, and judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench.core.measures.checks import Check, rebalance_count, reconciliation
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.consumer_kinds import knows_work
from lagbench_airflow.links import ReportLink
from lagbench_airflow.operators.start_companions import CellOperator
from lagbench_airflow.task_life import CellRun

if TYPE_CHECKING:
    from airflow.sdk import Context

CHECKS = "checks.json"


class RunRebalancesCheckOperator(CellOperator):
    """Measure the run; check that the group rebalanced only because it was scaled.

    After success: ``measures.json`` is written, which all after it reads, and ``checks.json`` has
    the result (null: unknown). The check does not fail the task. Safe to retry.
    """

    is_measured = False

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Count episodes by their cause."""
        from lagbench.results.measure_run import measure_run

        return _recorded(self, cell, rebalance_count(measure_run(cell.folder)))


class ReconcileCheckOperator(CellOperator):
    """Check that every acknowledged message was processed exactly once, by identity.

    After success: ``checks.json`` has the result (null: unknown) and the numbers that contradict
    the claim. The check does not fail the task: the verdict judges, after everything is written.
    Safe to retry.
    """

    is_measured = False

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Compare the accounting's classes with zero and its totals with each other."""
        found = cell.folder.read_model(cell.folder.measures, Measures)
        level = cell.scenario.consumer.accounting
        check = reconciliation(
            found.accounting, has_work=knows_work(level), is_output=level == "output"
        )
        return _recorded(self, cell, check)


def _recorded(task: CellOperator, cell: CellRun, check: Check) -> dict[str, Any]:
    """Merge one check into ``checks.json`` and return it; the checks run one after the other."""
    result = {"holds": check.holds, **check.numbers, "reasons": list(check.reasons)}
    task.log.info("%s: %s", task.task_id, result)
    cell.folder.write_json(CHECKS, {**_checks(cell), task.task_id: result})
    return result


def _checks(cell: CellRun) -> dict[str, Any]:
    is_there = (cell.folder.path / CHECKS).exists()
    found: dict[str, Any] = cell.folder.read_json(CHECKS) if is_there else {}
    return found


class VerdictOperator(CellOperator):
    """Judge the run, and write the results for people and gates.

    After success the run folder has verdict.json, junit.xml and report.html, all made from the
    folder alone; the result is pass, fail or undetermined, with what the two checks before it
    found. The task succeeds with every verdict: the task after it turns the verdict into the run's
    state. Safe to retry.
    """

    is_measured = False
    is_of_run = True
    operator_extra_links = (ReportLink(),)

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Judge the measures (computed by the rebalance check), write JUnit and report."""
        from lagbench.report.outcome_files import write_junit
        from lagbench.report.page import write_report
        from lagbench.results.measure_run import judge_run

        verdict = judge_run(cell.folder)
        write_junit(cell.folder)
        report = write_report(cell.folder)
        for slo in verdict.slos:
            self.log.info("%-12s %s: %s (%s)", slo.status, slo.title, slo.reason, slo.threshold)
        checks = {name: found["holds"] for name, found in _checks(cell).items()}
        self.log.info("verdict: %s; checks: %s; report: %s", verdict.status, checks, report)
        return {
            "run_id": cell.names.run_id,
            "status": verdict.status,
            "reasons": list(verdict.reasons),
            "slos": {slo.name: slo.status for slo in verdict.slos},
            "checks": checks,
            "report": str(report),
        }
