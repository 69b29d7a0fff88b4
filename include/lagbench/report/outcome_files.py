"""Write the verdict as JUnit XML, one testcase per SLO, for any CI that shows test results."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
from markupsafe import Markup

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.earlier_runs import lines
from lagbench.core.live.live_line import LiveCell, LiveLine, LivePhase, decode_line
from lagbench.core.measures.measures import Measures
from lagbench.core.verdict.in_words import summary
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict
from lagbench.embedded.kept_log import how_to_account
from lagbench.errors import LagbenchError
from lagbench.project import state_dir
from lagbench.report.page import content_security_policy, environment, styles, write_report
from lagbench.results.history import read_earlier
from lagbench.results.measure_run import rejudge_run

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


@dataclass(slots=True)
class StoppedRun:
    """The course of a run by its live lines and phases; None: it was never reported."""

    run_id: str
    phases: list[LivePhase]
    cell: LiveCell | None = None
    second: float | None = None
    lag: int | None = None
    replicas: tuple[int, int] | None = None
    standing: dict[str, tuple[float | None, str]] = field(default_factory=dict)

    @property
    def rows(self) -> list[tuple[LivePhase, LivePhase | None]]:
        """Return the begin of each phase with its end; None: it did not end."""
        ends = [phase for phase in self.phases if phase.state != "started"]
        begins = [phase for phase in self.phases if phase.state == "started"]
        return [
            (begin, next((e for e in ends if e.name == begin.name and e.at >= begin.at), None))
            for begin in begins
        ]

    @property
    def text(self) -> str:
        """Return how far it came, in one sentence."""
        where = f" in {self.phases[-1].name}" if self.phases else ""
        at = "before its stream began" if self.second is None else f"at {self.second:.0f} s"
        return f"stopped {at}{where}, not accounted for"


def stopped_run(folder: RunFolder) -> StoppedRun:
    """Read how far a run came, from the lines that it wrote while it was in progress."""
    found = StoppedRun(folder.run_id, [])
    for text in _lines(folder, "phases.jsonl"):
        try:
            phase = msgspec.convert(json.loads(text), LivePhase)
        except (ValueError, msgspec.ValidationError):  # cut off in mid-write
            continue
        if phase.state != "progress":
            found.phases.append(phase)
    for text in _lines(folder, "live.jsonl"):
        try:
            _add(found, decode_line(text.encode()))
        except msgspec.DecodeError:
            continue
    return found


def write_stopped(folder: RunFolder) -> StoppedRun:
    """Write ``report.html`` of a run that ended without a verdict; return how far it came."""
    run, style = stopped_run(folder), styles()
    page = (
        environment()
        .get_template("stopped.html.j2")
        .render(
            run=run,
            remedy=how_to_account(state_dir(), folder).removeprefix(". "),
            style=Markup(style),  # noqa: S704 - ours
            content_security_policy=content_security_policy([], [style]),
        )
    )
    folder.write_text(folder.report, page)
    return run


def _lines(folder: RunFolder, name: str) -> list[str]:
    path = folder.path / name
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _add(found: StoppedRun, line: LiveLine) -> None:
    found.cell = line.run or found.cell
    found.second = found.second if line.second is None else line.second
    found.lag = found.lag if line.lag is None else line.lag
    found.replicas = line.replicas or found.replicas
    found.standing |= line.standing
