"""Write what shows the verdict of a run again: junit.xml and the pages."""

from __future__ import annotations

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError
from lagbench.report.junit import write_junit
from lagbench.report.page import write_report
from lagbench.results.measure import rejudge_run


def report_again(folder: RunFolder) -> Verdict:
    """Measure, judge and report a run again, from its folder alone; return the verdict.

    :raises LagbenchError: it cannot be measured. junit.xml then says so, and no page is left.
    """
    try:
        verdict = rejudge_run(folder)
    except LagbenchError:
        write_junit(folder)
        raise
    write_junit(folder)
    write_report(folder)
    return verdict


def report_kept(folder: RunFolder) -> Verdict:
    """Report a run of which an experiment kept measures and verdict; return the verdict."""
    write_report(folder)
    return folder.read_model(folder.verdict, Verdict)
