"""A verdict belongs to the limits and the policy that the run had when its stream began."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from typing import Any

import pytest
from tests.fakes.tampered_run import TamperedRun

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT
from lagbench.report.outcome_files import report_again
from lagbench.results.measure_run import rejudge_run, what_if
from lagbench.results.seals import SEALED_FIELD, seal


def test_a_limit_that_was_loosened_afterwards_is_refused(run: TamperedRun) -> None:
    """By the name of the file, and the verdict of before stays."""
    run.set_slos(reaction_seconds=1)
    seal(run.folder)
    assert run.judge().status == "fail"
    before = run.folder.verdict.read_bytes()

    run.set_slos(reaction_seconds=60)

    with pytest.raises(WrongInput, match=r"scenario\.yaml"):
        rejudge_run(run.folder)
    assert run.folder.verdict.read_bytes() == before


@pytest.mark.parametrize("name", ["policy.yaml", "conf.json", "policy-0.yaml"])
def test_each_input_is_sealed(run: TamperedRun, name: str) -> None:
    """Changed or added: the run did not have it."""
    seal(run.folder)
    run.judge()

    path = run.folder.path / name
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}  x: 1" if name == "policy.yaml" else json.dumps({"a": "b"}))

    with pytest.raises(WrongInput, match=name.replace(".", r"\.")):
        rejudge_run(run.folder)


def test_comments_and_a_second_seal_change_nothing(run: TamperedRun) -> None:
    """A digest is of what the file says; a retried task keeps the first one."""
    seal(run.folder)
    sealed = run.folder.read_json("manifest.json")[SEALED_FIELD]
    path = run.folder.scenario
    path.write_text(f"# read by a person\n{path.read_text()}")
    seal(run.folder)

    assert run.folder.read_json("manifest.json")[SEALED_FIELD] == sealed
    assert run.judge().status == "pass"


def test_a_folder_without_seals_is_judged_and_says_so(run: TamperedRun) -> None:
    """Older versions sealed nothing."""
    verdict = run.judge()
    assert sum("not sealed" in note for note in verdict.notes) == 1

    seal(run.folder)
    assert not any("not sealed" in note for note in run.judge().notes)


def test_another_limit_is_asked_for_beside_the_verdict(run: TamperedRun) -> None:
    """what-if.json has it; verdict.json stays as it was."""
    seal(run.folder)
    run.judge()
    before = run.folder.verdict.read_bytes()

    assert what_if(run.folder, {"reaction_seconds": 0.5}).status == "fail"

    found = run.folder.read_json("what-if.json")
    assert (found["set"], found["verdict"]["status"]) == ({"reaction_seconds": 0.5}, "fail")
    assert run.folder.verdict.read_bytes() == before
    with pytest.raises(WrongInput, match=r"slos\.reaction"):
        what_if(run.folder, {"reaction": 1})


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
