"""SLOs as JUnit XML, one testcase each, for any CI that shows test results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from lagbench.core.verdict.slo import SloResult


def junit_suite(
    name: str,
    cases: Sequence[tuple[str, SloResult]],
    *,
    errors: Sequence[tuple[str, str]] = (),
    output: Sequence[str] = (),
) -> str:
    """Return the document: fail is a failure, undetermined an error, not judged is skipped.

    A limit that only warns is none of the first two.

    :param cases: each with its class, a run or a cell. :param errors: classes with why they are
        not judged, which are one more testcase, ``run``. :param output: lines of the suite.
    """
    slos = [slo for _, slo in cases]
    counts = {
        "tests": len(cases) + len(errors),
        "failures": sum(slo.status == "fail" for slo in slos),
        "errors": sum(slo.leaves_open for slo in slos) + len(errors),
        "skipped": sum(_is_skipped(slo) for slo in slos),
    }
    attributes = {key: str(count) for key, count in counts.items()}
    suite = ET.Element("testsuite", {"name": name, **attributes})
    for of, slo in cases:
        _testcase(suite, of, slo)
    for of, reason in errors:
        case = ET.SubElement(suite, "testcase", {"classname": of, "name": "run"})
        ET.SubElement(case, "error", {"message": _clean(reason)})
    if output:
        ET.SubElement(suite, "system-out").text = _clean("\n".join(output))
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _testcase(suite: ET.Element, of: str, slo: SloResult) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": of, "name": slo.name})
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
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
