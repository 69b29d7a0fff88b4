"""Write the verdict as JUnit XML, one testcase per SLO, for any CI that shows test results."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.verdict.in_words import summary
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady
from lagbench.report.page import write_report
from lagbench.report.stopped_run import write_stopped
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
    folder.write_text(SUMMARY, summary(verdict, manifest))
    return folder.junit


def junit_xml(verdict: Verdict) -> str:
    """Return the document: fail is a failure, undetermined an error, not judged is skipped.

    A run that is undetermined although no SLO is (end state), or that is invalid, has one more
    testcase, ``run``, with an error that gives the reason: JUnit must not show a pass. Notes are
    the suite's output.
    """
    counts = {
        "tests": len(verdict.slos),
        "failures": _count(verdict, "fail"),
        "errors": _count(verdict, "undetermined"),
        "skipped": _count(verdict, "not_judged"),
    }
    is_hidden = verdict.status == "undetermined" and not counts["errors"]
    reported = verdict.invalid or (verdict.reasons if is_hidden else ())
    if reported:
        counts["tests"] += 1
        counts["errors"] += 1
    attributes = {name: str(count) for name, count in counts.items()}
    suite = ET.Element("testsuite", {"name": f"lagbench.{verdict.run_id}", **attributes})
    for slo in verdict.slos:
        _testcase(suite, verdict.run_id, slo)
    if reported:
        case = ET.SubElement(suite, "testcase", {"classname": verdict.run_id, "name": "run"})
        ET.SubElement(case, "error", {"message": _clean("; ".join(reported))})
    if verdict.notes:
        ET.SubElement(suite, "system-out").text = _clean("\n".join(verdict.notes))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _testcase(suite: ET.Element, run_id: str, slo: SloResult) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": run_id, "name": slo.name})
    is_known = slo.value is not None or bool(slo.answer)
    value = slo.value_text if is_known else "not measured"
    text = _clean(f"{slo.title}: {value} ({slo.threshold}). {slo.reason}")
    tags = {"fail": "failure", "undetermined": "error", "not_judged": "skipped"}
    if slo.status in tags:
        ET.SubElement(case, tags[slo.status], {"message": text})
    else:
        ET.SubElement(case, "system-out").text = text


def _count(verdict: Verdict, status: str) -> int:
    return sum(slo.status == status for slo in verdict.slos)


def _clean(text: str) -> str:
    """Drop characters that XML 1.0 cannot hold; a broker's message may have them."""
    return "".join(
        c
        for c in text
        if c in "\t\n\r" or (" " <= c < "\ud800") or "\ue000" <= c < "\ufffe" or c > "\uffff"
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
        write_junit(folder)
        raise
    write_junit(folder)
    write_report(folder)
    return verdict


def report_kept(folder: RunFolder) -> Verdict:
    """Report a run of which an experiment kept measures and verdict; return the verdict."""
    write_report(folder)
    return folder.read_model(folder.verdict, Verdict)
