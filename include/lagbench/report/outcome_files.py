"""Write a run's verdict for others: JUnit XML, summary and report."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.earlier_runs import lines
from lagbench.core.measures.measures import Measures
from lagbench.core.verdict.in_words import summary
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady
from lagbench.report.junit import junit_suite
from lagbench.report.page import write_report
from lagbench.report.stopped_run import write_stopped
from lagbench.results.history import read_earlier
from lagbench.results.measure_run import ended_early, rejudge_run

SUMMARY = "summary.md"


def write_junit(folder: RunFolder) -> Path:
    """Write junit.xml and summary.md from verdict.json, of each group; return the run's path.

    :raises NotReady: the run has no verdict.
    """
    if folder.second is not None and folder.second.verdict.exists():
        write_junit(folder.second)
    verdict = folder.read_model(folder.verdict, Verdict)
    folder.write_text(folder.junit, junit_xml(verdict))
    manifest = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    measures, earlier = known_measures(folder), read_earlier(folder)
    before = () if measures is None or earlier is None else tuple(lines(earlier, measures))
    folder.write_text(SUMMARY, summary(verdict, manifest, measures, before))
    return folder.junit


def known_measures(folder: RunFolder) -> Measures | None:
    """Return the measures; None: the run has none that can be read."""
    with suppress(LagbenchError, ValueError):
        return folder.read_model(folder.measures, Measures)
    return None


def junit_xml(verdict: Verdict) -> str:
    """Return the document of a run; the suite's output names what broke a limit that only warns.

    A run that is undetermined although no SLO is (end state), or that is invalid, has one more
    testcase with an error that gives the reason: JUnit must not show a pass. Notes are the suite's
    output, and so is why nothing was judged.
    """
    has_open = any(slo.leaves_open for slo in verdict.slos)
    is_hidden = verdict.status == "undetermined" and not has_open
    reported = verdict.invalid or (verdict.reasons if is_hidden else ())
    if verdict.status == "not_judged":
        reported = ()
    output = (
        *(verdict.reasons if verdict.status == "not_judged" else ()),
        *verdict.notes,
        *(f"warning: {text}" for text in verdict.warnings),
    )
    return junit_suite(
        f"lagbench.{verdict.run_id}",
        [(verdict.run_id, slo) for slo in verdict.slos],
        errors=[(verdict.run_id, "; ".join(reported))] if reported else (),
        output=output,
    )


def report_again(folder: RunFolder) -> Verdict:
    """Measure, judge and report a run again, from its folder alone; return the verdict.

    :raises LagbenchError: it cannot be measured. junit.xml then says so, and no page is left; of a
        run that ended before its accounting the page has what was seen.
    """
    try:
        verdict = rejudge_run(folder)
    except LagbenchError as problem:
        if isinstance(problem, NotReady) and ended_early(folder):
            run = write_stopped(folder)
            told = f"run {folder.reference} {run.text}"
            after = f"; {run.remedy}" if run.remedy else ""
            raise NotReady(f"{told}. {folder.report} shows what was seen{after}") from problem
        if folder.verdict.exists():
            write_junit(folder)
        raise
    write_junit(folder)
    write_report(folder)
    return verdict


def report_kept(folder: RunFolder) -> Verdict:
    """Report a run of which an experiment kept measures and verdict; return the verdict."""
    write_report(folder)
    return folder.read_model(folder.verdict, Verdict)
