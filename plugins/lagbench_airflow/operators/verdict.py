"""Measure a run, check two claims that hold for every run, and judge it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

from lagbench.core.measures.checks import rebalance_count
from lagbench.core.measures.measures import Measures
from lagbench.core.verdict.verdict import balance_of
from lagbench.results.cell_run import CellRun
from lagbench_airflow.links import ReportLink, report_path
from lagbench_airflow.operators.start_companions import CellOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from lagbench.core.measures.checks import Check


class _CheckOperator(CellOperator):
    """Write a claim's result into ``checks.json``, which the verdict reads.

    A claim that does not hold, or of which nothing is known (null), fails no task: the verdict
    judges, after everything is written.
    """

    is_measured = False

    def check(self, cell: CellRun) -> Check:
        """Return whether the claim holds."""
        raise NotImplementedError

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:  # noqa: ARG002
        """Check and record."""
        from lagbench.results.measure_run import record_check

        result = record_check(cell.folder, self.task_id, self.check(cell))
        self.log.info("%s: %s", self.task_id, result)
        return result


class RunRebalancesCheckOperator(_CheckOperator):
    """Measure the run; check that the group rebalanced only because it was scaled.

    After success: ``measures.json`` is written, which all after it reads, and ``checks.json`` has
    the result. Safe to retry.
    """

    def check(self, cell: CellRun) -> Check:
        """Count episodes by their cause."""
        from lagbench.results.measure_run import measure_run

        return rebalance_count(measure_run(cell.folder))


class ReconcileCheckOperator(_CheckOperator):
    """Check that every acknowledged message was processed exactly once, by identity.

    After success: ``checks.json`` has the result, and the numbers that contradict the claim. Safe
    to retry.
    """

    def check(self, cell: CellRun) -> Check:
        """Compare the accounting's classes with zero and its totals with each other."""
        return balance_of(cell.folder.read_model(cell.folder.measures, Measures))


EVENT_FIELDS = ("scenario", "policy", "seed", "fidelity", "cell")
VERDICTS = Asset(name="lagbench/verdicts", uri="lagbench://verdicts")
"""An event of it is a verdict. Its extra has run, status, measures, link and these fields of the
manifest; ``cell`` has the digests of what was rehearsed (``cell_digests``) and of the target."""


class VerdictOperator(CellOperator):
    """Judge the run, and write the results for people and gates.

    After success the run folder has verdict.json, junit.xml and report.html, all made from the
    folder alone; the result is pass, fail or undetermined. With the outlet ``VERDICTS`` it is an
    event of that asset, which other Dags may wait for. It reads what the two checks before it
    found: without the result of each of them a run does not pass. The task succeeds with every
    verdict: the task after it turns the verdict into the run's state. Safe to retry.
    """

    is_measured = False
    is_of_run = True
    operator_extra_links = (ReportLink(),)

    def act(self, cell: CellRun, context: Context) -> dict[str, Any]:
        """Judge the measures (computed by the rebalance check), write JUnit and report."""
        from lagbench.report.outcome_files import write_junit
        from lagbench.report.page import write_report
        from lagbench.results.measure_run import judge_run, read_checks

        verdict = judge_run(cell.folder, reads_checks=True)
        write_junit(cell.folder)
        report = write_report(cell.folder)
        for slo in verdict.slos:
            self.log.info("%-12s %s: %s (%s)", slo.status, slo.title, slo.reason, slo.limit_text)
        checks = {name: found["holds"] for name, found in read_checks(cell.folder).items()}
        self.log.info("verdict: %s; checks: %s; report: %s", verdict.status, checks, report)
        link = report_path(cell.names.run_id)
        if VERDICTS in self.outlets:
            context["outlet_events"][VERDICTS].extra = {
                "run_id": cell.names.run_id,
                **{name: cell.noted(name) for name in EVENT_FIELDS},
                "status": verdict.status,
                "measures": {s.name: s.value for s in verdict.slos if s.value is not None},
                "report": link,
            }
        return {
            "run_id": cell.names.run_id,
            "status": verdict.status,
            "reasons": list(verdict.reasons),
            "slos": {slo.name: slo.status for slo in verdict.slos},
            "checks": checks,
            "report": link,
        }
