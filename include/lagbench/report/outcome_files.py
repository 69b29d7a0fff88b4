"""Write the verdict as JUnit XML, one testcase per SLO, for any CI that shows test results."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree as ET

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.earlier_runs import lines
from lagbench.core.measures.measures import Measures
from lagbench.core.verdict.in_words import summary
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady
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
    """Return the document: fail is a failure, undetermined an error, not judged is skipped.

    A limit that only warns is none of the first two; the suite's output names what broke it.

    A run that is undetermined although no SLO is (end state), or that is invalid, has one more
    testcase, ``run``, with an error that gives the reason: JUnit must not show a pass. Notes are
    the suite's output, and so is why nothing was judged.
    """
    counts = {
        "tests": len(verdict.slos),
        "failures": sum(slo.status == "fail" for slo in verdict.slos),
        "errors": sum(slo.leaves_open for slo in verdict.slos),
        "skipped": sum(_is_skipped(slo) for slo in verdict.slos),
    }
    is_hidden = verdict.status == "undetermined" and not counts["errors"]
    reported = verdict.invalid or (verdict.reasons if is_hidden else ())
    if verdict.status == "not_judged":
        reported = ()
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
    output = (
        *(verdict.reasons if verdict.status == "not_judged" else ()),
        *verdict.notes,
        *(f"warning: {text}" for text in verdict.warnings),
    )
    if output:
        ET.SubElement(suite, "system-out").text = _clean("\n".join(output))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _testcase(suite: ET.Element, run_id: str, slo: SloResult) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": run_id, "name": slo.name})
    is_known = slo.value is not None or bool(slo.answer)
    value = slo.value_text if is_known else "not measured"
    warning = "warning: " if slo.is_warning else ""
    text = _clean(f"{warning}{slo.title}: {value} ({slo.threshold}). {slo.reason}")
    tags = {"fail": "failure", "undetermined": "error"}
    if tag := "skipped" if _is_skipped(slo) else tags.get(slo.status):
        ET.SubElement(case, tag, {"message": text})
    else:
        ET.SubElement(case, "system-out").text = text


def _is_skipped(slo: SloResult) -> bool:
    return slo.status == "not_judged" or (slo.status == "undetermined" and not slo.leaves_open)


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
