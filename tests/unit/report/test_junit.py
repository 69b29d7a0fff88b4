"""The verdict as JUnit XML."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.verdict.slo import SloResult, SloStatus
from lagbench.core.verdict.verdict import Verdict
from lagbench.report.junit import junit_xml, write_junit

STATUSES: tuple[SloStatus, ...] = ("pass", "fail", "undetermined", "not_judged")


def slo(name: str, status: SloStatus) -> SloResult:
    """Return an SLO's result; XML cannot hold all of its reason."""
    return SloResult(
        name=name,
        title=name.title(),
        threshold="at most 5 s",
        value=3.5,
        unit="s",
        status=status,
        reason="pod <x> & \x00 co",
    )


SLOS = tuple(slo(name, status) for name, status in zip("abcd", STATUSES, strict=True))
ALL = Verdict(run_id="run-1", status="fail", reasons=("B: because",), slos=SLOS)
CLAIM = SLOS[0].model_copy(update={"threshold": "must hold", "value": None})


@pytest.mark.parametrize(
    ("changes", "counts", "cases"),
    [
        (
            {},
            (4, 1, 1, 1),
            [
                ("system-out", "A: 3.5 s (at most 5 s). pod <x> &  co"),
                ("failure", "B: 3.5 s (at most 5 s). pod <x> &  co"),
                ("error", "C: 3.5 s (at most 5 s). pod <x> &  co"),
                ("skipped", "D: 3.5 s (at most 5 s). pod <x> &  co"),
            ],
        ),
        # Every SLO passes, but the run was not drained: JUnit must not show a pass.
        (
            {"status": "undetermined", "reasons": ("not drained",), "slos": SLOS[:1]},
            (2, 0, 1, 0),
            [("system-out", "A: 3.5 s (at most 5 s). pod <x> &  co"), ("error", "not drained")],
        ),
        # Of an invalid run the SLOs say what was measured; its reason is told once.
        (
            {"status": "undetermined", "reasons": ("late",), "invalid": ("late",), "slos": ()},
            (1, 0, 1, 0),
            [("error", "late")],
        ),
        # A claim has no number, and says yes instead.
        (
            {"slos": (CLAIM,)},
            (1, 0, 0, 0),
            [("system-out", "A: yes (must hold). pod <x> &  co")],
        ),
        # Notes decide nothing: they are the suite's.
        ({"slos": (), "notes": ("12 replicas", "a gap")}, (0, 0, 0, 0), []),
    ],
)
def test_each_status_has_its_element(
    tmp_path: Path, changes: dict[str, Any], counts: tuple[int, ...], cases: list[tuple[str, str]]
) -> None:
    """junit.xml lies in the run folder: failure, error and skipped, with counts on the suite."""
    folder = RunFolder.create("run-1", tmp_path)
    verdict = ALL.model_copy(update=changes)
    folder.write_json(folder.verdict, verdict.model_dump(mode="json"))

    suite = ET.parse(write_junit(folder)).getroot()  # noqa: S314 - our own output

    assert folder.junit.read_text() == junit_xml(verdict)
    assert suite.get("name") == "lagbench.run-1"
    names = ("tests", "failures", "errors", "skipped")
    assert tuple(int(suite.get(name, "")) for name in names) == counts
    assert [(e.tag, e.get("message", e.text)) for case in suite for e in case] == cases
    assert suite.findtext("system-out") == ("12 replicas\na gap" if "notes" in changes else None)
