"""Raw run folders that were kept: every later version measures and judges them as they were.

tests/data/runs/README.md says what they are. A rule that changes a verdict is named there, with the
folder that it changed.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import Any

import pytest

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.project import PROJECT_ROOT
from lagbench.report.again import report_again

KEPT = PROJECT_ROOT / "tests" / "data" / "runs"
STATUS = {
    "observe": "undetermined",
    "own_consumer": "pass",
    "spark": "pass",
    "stand_in_fail": "fail",
    "stand_in_pass": "pass",
    "stand_in_undetermined": "undetermined",
}


@dataclass(frozen=True)
class Again:
    """What the run had written, and what is written of it now, twice."""

    written: tuple[Any, Any]
    measured: tuple[Any, Any]
    pages: tuple[bytes, bytes]


@pytest.fixture(scope="module", params=STATUS)
def again(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Again:
    """Measure, judge and report a copy of a kept folder twice."""
    copy = tmp_path_factory.mktemp(request.param)
    with tarfile.open(KEPT / f"{request.param}.tar.xz") as archive:
        archive.extractall(copy, filter="data")
    (path,) = copy.iterdir()
    folder = RunFolder(path)

    def results() -> tuple[Any, Any]:
        return folder.read_json(folder.measures), folder.read_json(folder.verdict)

    def page() -> bytes:
        folder.report.unlink(missing_ok=True)
        report_again(folder)
        return folder.report.read_bytes()

    written = results()
    pages = page(), page()
    assert written[1]["status"] == STATUS[request.param]
    return Again(written, results(), pages)


def test_a_kept_folder_is_measured_and_judged_as_it_was(again: Again) -> None:
    """Measures and verdict from the raw tables are those that the run itself wrote."""
    assert again.measured == again.written


def test_its_report_is_rebuilt_to_the_byte(again: Again) -> None:
    """The page depends on the folder alone: not on the time, nor on what was there before."""
    assert again.pages[0] == again.pages[1]
