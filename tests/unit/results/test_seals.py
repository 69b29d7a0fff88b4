"""A verdict belongs to the limits and the policy that the run had when its stream began."""

from __future__ import annotations

import json

import pytest
from tests.fakes.tampered_run import TamperedRun

from lagbench.errors import WrongInput
from lagbench.results.measure import rejudge_run, what_if
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
