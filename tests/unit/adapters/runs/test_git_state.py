"""What the manifest says of the checkout that a run was made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.fakes.compared_runs import write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.adapters.runs.run_manifest import MOST_CHANGED, git_state
from lagbench.errors import NotReady


def git(folder: Path, *arguments: str) -> None:
    """Run git as a user of its own."""
    user = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *user, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with code and the folder of a started execution."""
    folder = tmp_path / "checkout"
    for file in ("code.py", "results/dip/execution.json", "results/dip/result.md"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("1")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "All")
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(folder / "my-runs"))
    return folder


def test_results_are_no_change(checkout: Path) -> None:
    """New, changed and deleted files of an execution's folder and of the runs folder."""
    clean = git_state(checkout)
    for file in ("results/dip/runs.jsonl.gz", "results/dip/execution.json", "my-runs/a/x.json"):
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
        (checkout / file).write_text("2")
    (checkout / "results/dip/result.md").unlink()

    assert len(clean["commit"]) == 40
    assert (clean["is_dirty"], clean["changed"], clean["changed_count"]) == (False, [], 0)
    assert git_state(checkout) == clean


def test_a_change_is_named(checkout: Path) -> None:
    """Also a new file, one whose name git would quote, and one beside the results.

    Of many the first are named, and all are counted.
    """
    named = ["code.py", "new/größe.py", "results/README.md"]
    for file in named:
        (checkout / file).parent.mkdir(exist_ok=True)
        (checkout / file).write_text("2")
    found = git_state(checkout)
    assert (found["is_dirty"], found["changed"]) == (True, named)

    for number in range(MOST_CHANGED):
        (checkout / f"new-{number:02}.py").write_text("1")
    found = git_state(checkout)
    assert (len(found["changed"]), found["changed_count"]) == (MOST_CHANGED, MOST_CHANGED + 3)


def test_only_files_of_the_project_are_named(checkout: Path) -> None:
    """The project may be a folder of a larger checkout; an execution above it excuses nothing."""
    project = checkout / "results" / "dip" / "project"
    for file in (checkout / "code.py", project / "code.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("2")

    assert git_state(project)["changed"] == ["code.py"]


@pytest.mark.parametrize("has_git", [True, False])
def test_outside_a_checkout_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_git: bool
) -> None:
    """None, not clean; also where git is not installed."""
    if not has_git:
        monkeypatch.setenv("PATH", str(tmp_path))
    unknown = {"commit": None, "is_dirty": None, "changed": None, "changed_count": None}
    assert git_state(tmp_path) == unknown


def test_a_run_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    """Each kept file is equal: JSON as data, YAML as its text with its comments."""
    run = write_run(tmp_path, "a")
    run.write_text(run.scenario, "# why\n" + run.read_text(run.scenario))
    run.write_text(run.policy, "kind: ScaledObject # why\n")
    run.write_json(run.accounting, {"lost": 0})
    kept = ExperimentFolder(tmp_path / "kept")

    kept.keep(run, {"pair": 1})

    (found,) = kept.runs()
    assert found.record == {"pair": 1}
    with found.unpacked() as again:
        for file in (run.manifest, run.measures, run.verdict, run.accounting):
            assert again.read_json(file.name) == run.read_json(file)
        for file in (run.scenario, run.policy):
            assert again.read_text(file.name) == run.read_text(file)


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    """In whichever order they were kept, and also when one is kept twice."""
    runs = [write_run(tmp_path, name) for name in ("a", "b")]
    one, other = ExperimentFolder(tmp_path / "one"), ExperimentFolder(tmp_path / "other")
    for run in runs:
        one.keep(run, {})
    for run in (*reversed(runs), runs[0]):
        other.keep(run, {})

    assert one.kept.read_bytes() == other.kept.read_bytes()
    assert [run.run_id for run in one.runs()] == ["a", "b"]


def test_a_crash_loses_no_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file with the new run takes the place of the old one only when it is whole."""
    kept = ExperimentFolder(tmp_path / "kept")
    kept.keep(write_run(tmp_path, "a"), {})
    second = write_run(tmp_path, "b")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        kept.keep(second, {})

    assert [run.run_id for run in kept.runs()] == ["a"]


def test_a_run_without_a_verdict_is_not_kept(tmp_path: Path) -> None:
    """It is missing as before."""
    run = write_run(tmp_path, "a")
    run.verdict.unlink()
    kept = ExperimentFolder(tmp_path / "kept")

    with pytest.raises(NotReady, match=r"verdict\.json"):
        kept.keep(run, {})
    assert kept.runs() == []
