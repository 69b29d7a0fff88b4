"""What is said of the locked versions, and what is not said because nobody answered."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from subprocess import CompletedProcess

import pytest
import tests.audit
from tests.audit import FOUND, LOCKS, NOT_ASKED, Answer, Run, audit, vulnerable, yanked
from tests.licences import TABLE, locked

from lagbench.project import PROJECT_ROOT

CLEAN = json.dumps({"dependencies": [{"name": "idna", "version": "3.10", "vulns": []}]})
TORN = json.dumps(
    {"dependencies": [{"name": "idna", "version": "3.6", "vulns": [{"id": "A-1"}, {"id": "A-2"}]}]}
)
YANKED = 'Resolved 2 packages\nwarning: `idna==3.6` is yanked (reason: "broken")\n'


def test_every_lock_of_python_packages_is_asked_for() -> None:
    """They are the files that have hashes for pip."""
    files = [*PROJECT_ROOT.glob("requirements*.txt"), *PROJECT_ROOT.glob("k8s/images/*.txt")]
    with_hashes = {str(f.relative_to(PROJECT_ROOT)) for f in files if "--hash=" in f.read_text()}

    assert set(LOCKS) == with_hashes


def test_each_runtime_package_has_its_licence() -> None:
    """The table has the lock's packages, but for those of other platforms and Pythons."""
    with TABLE.open() as file:
        rows = {(row["package"], row["version"]) for row in csv.DictReader(file)}

    names = [name for name, _ in locked()]
    elsewhere = {"colorama", "pyyaml-ft", *(n for n in names if names.count(n) > 1)}
    assert rows <= locked()
    assert {name for name, _ in locked() - rows} <= elsewhere


def test_a_yanked_version_is_named_with_the_reason() -> None:
    """The index's reason follows the version."""
    answer = yanked("lock", _answers(uv=(0, YANKED)))

    assert answer == Answer(('idna==3.6 (reason: "broken")',))


def test_a_vulnerable_version_is_named_with_its_advisories() -> None:
    """All of them are in one line."""
    assert vulnerable("lock", _answers(osv=TORN)) == Answer(("idna==3.6: A-1, A-2",))


def test_a_package_that_was_left_out_is_no_clean_one() -> None:
    """pip-audit ends well when it has skipped a package."""
    skipped = json.dumps({"dependencies": [{"name": "idna", "skip_reason": "unknown"}]})

    assert vulnerable("lock", _answers(osv=skipped)) == Answer((), "not for idna")


def test_clean_locks_are_clean() -> None:
    """Both questions are answered, and no answer names a package."""
    said: list[str] = []

    assert audit(["a", "b"], _answers(uv=(0, ""), osv=CLEAN), said.append) == 0
    assert [line.rpartition(" for ")[2] for line in said] == ["a, b", "a, b"]


def test_no_answer_is_said_and_is_not_clean() -> None:
    """A server that cannot be reached is asked once."""
    said: list[str] = []

    assert audit(["a", "b"], _answers(uv=(0, ""), osv=""), said.append) == NOT_ASKED
    (answer,) = said[1:]
    assert answer.startswith("known vulnerabilities: not searched from a ")


def test_a_program_that_does_not_run_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without uv, or after its time, nothing was searched."""
    monkeypatch.setattr(tests.audit, "_LIMIT_SECONDS", 0.2)
    for command in (["/nowhere/uv"], ["sleep", "60"]):
        assert yanked("lock", lambda _, command=command: tests.audit._run(command)).unanswered


def test_ci_does_not_depend_on_a_server_of_advisories() -> None:
    """It passes or fails by the commit alone."""
    assert "audit" not in (PROJECT_ROOT / ".ci" / "run").read_text()


def test_what_was_found_counts_more_than_what_was_not_asked() -> None:
    """The exit code is that of a finding."""
    assert audit(["a"], _answers(uv=(0, YANKED), osv=""), list[str]().append) == FOUND


def _answers(*, uv: tuple[int, str] = (0, ""), osv: str = CLEAN) -> Run:
    """Return what runs a command: uv's exit code and warnings, pip-audit's JSON."""

    def run(command: Sequence[str]) -> CompletedProcess[str]:
        if "pip-audit" in command:
            return CompletedProcess(command, 1, osv, "Traceback\nno such server\n")
        return CompletedProcess(command, uv[0], "", uv[1])

    return run
