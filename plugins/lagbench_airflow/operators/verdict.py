"""Judge a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.links import ReportLink
from lagbench_airflow.operators.cell_operator import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class VerdictOperator(CellOperator):
    """Measure and judge the run, and write the results for people and gates.

    After success the run folder has measures.json, verdict.json, junit.xml and report.html, all
    made from the folder alone; the result is pass, fail or undetermined. The task succeeds
    with every verdict: the task after it turns the verdict into the run's state. Safe to retry.
    """

    is_measured = False
    is_of_run = True
    operator_extra_links = (ReportLink(),)

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Judge the measures (computed by the rebalance check), write JUnit and report."""
        from lagbench.report import write_report
        from lagbench.report.junit import write_junit
        from lagbench.results.measure import judge_run

        verdict = judge_run(cell.folder)
        write_junit(cell.folder)
        report = write_report(cell.folder)
        for slo in verdict.slos:
            self.log.info("%-12s %s: %s (%s)", slo.status, slo.title, slo.reason, slo.threshold)
        self.log.info("verdict: %s; report: %s", verdict.status, report)
        return {
            "run_id": cell.names.run_id,
            "status": verdict.status,
            "reasons": list(verdict.reasons),
            "slos": {slo.name: slo.status for slo in verdict.slos},
            "report": str(report),
        }
