"""A verdict belongs to the limits and the policy that the run had when its stream began."""

from __future__ import annotations

import json

import pytest
from rich.console import Console
from tests.fakes.tampered_run import TamperedRun

from lagbench.cli.verdict_table import print_verdict
from lagbench.errors import NotReady, WrongInput
from lagbench.results.measure import rejudge_run, what_if
from lagbench.results.seals import SEALED_FIELD, seal


def test_a_limit_that_was_loosened_afterwards_is_refused(passed: TamperedRun) -> None:
    """By the name of the file, and the verdict of before stays."""
    passed.set_slos(reaction_seconds=1)
    seal(passed.folder)
    assert passed.judge().status == "fail"
    before = passed.folder.verdict.read_bytes()

    passed.set_slos(reaction_seconds=60)

    with pytest.raises(WrongInput, match=r"scenario\.yaml"):
        rejudge_run(passed.folder)
    assert passed.folder.verdict.read_bytes() == before


@pytest.mark.parametrize("name", ["policy.yaml", "conf.json", "policy-0.yaml"])
def test_each_input_is_sealed(passed: TamperedRun, name: str) -> None:
    """Changed or added: the run did not have it."""
    seal(passed.folder)
    passed.judge()

    path = passed.folder.path / name
    before = path.read_text() if path.exists() else ""
    path.write_text(f"{before}  x: 1" if name == "policy.yaml" else json.dumps({"a": "b"}))

    with pytest.raises(WrongInput, match=name.replace(".", r"\.")):
        rejudge_run(passed.folder)


def test_comments_and_a_second_seal_change_nothing(passed: TamperedRun) -> None:
    """A digest is of what the file says; a retried task keeps the first one."""
    seal(passed.folder)
    sealed = passed.folder.read_json("manifest.json")[SEALED_FIELD]
    path = passed.folder.scenario
    path.write_text(f"# read by a person\n{path.read_text()}")
    seal(passed.folder)

    assert passed.folder.read_json("manifest.json")[SEALED_FIELD] == sealed
    assert passed.judge().status == "pass"


def test_a_folder_without_seals_is_judged_and_says_so(passed: TamperedRun) -> None:
    """Older versions sealed nothing."""
    verdict = passed.judge()
    assert sum("not sealed" in note for note in verdict.notes) == 1

    seal(passed.folder)
    assert not any("not sealed" in note for note in passed.judge().notes)


def test_another_limit_is_asked_for_beside_the_verdict(passed: TamperedRun) -> None:
    """what-if.json has it; verdict.json stays as it was."""
    seal(passed.folder)
    passed.judge()
    before = passed.folder.verdict.read_bytes()

    assert what_if(passed.folder, {"reaction_seconds": 0.5}).status == "fail"

    found = passed.folder.read_json("what-if.json")
    assert (found["set"], found["verdict"]["status"]) == ({"reaction_seconds": 0.5}, "fail")
    assert passed.folder.verdict.read_bytes() == before
    with pytest.raises(WrongInput, match=r"slos\.reaction"):
        what_if(passed.folder, {"reaction": 1})


def test_no_verdict_is_shown_of_other_files(passed: TamperedRun) -> None:
    """The accounting was changed after the verdict; judged again it is shown."""
    passed.judge()
    print_verdict(Console(quiet=True), passed.folder)
    passed.set_accounting(lost=3)

    with pytest.raises(NotReady, match=r"accounting\.json"):
        print_verdict(Console(quiet=True), passed.folder)
