"""What the manifest says of the checkout that a run was made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lagbench.adapters.runs.run_manifest import MOST_CHANGED, git_state


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


def test_a_checkout_without_changes_is_clean(checkout: Path) -> None:
    """Its commit is the whole truth."""
    found = git_state(checkout)

    assert len(found["commit"]) == 40
    assert (found["is_dirty"], found["changed"], found["changed_count"]) == (False, [], 0)


def test_results_are_no_change(checkout: Path) -> None:
    """New, changed and deleted files of an execution's folder and of the runs folder."""
    for file in ("results/dip/runs.jsonl.gz", "results/dip/execution.json", "my-runs/a/x.json"):
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
        (checkout / file).write_text("2")
    (checkout / "results/dip/result.md").unlink()

    assert git_state(checkout)["is_dirty"] is False


def test_a_change_is_named(checkout: Path) -> None:
    """Also a new file, one whose name git would quote, and one beside the results."""
    for file in ("code.py", "new/größe.py", "results/README.md"):
        (checkout / file).parent.mkdir(exist_ok=True)
        (checkout / file).write_text("2")

    found = git_state(checkout)

    assert found["is_dirty"] is True
    assert found["changed"] == ["code.py", "new/größe.py", "results/README.md"]


def test_of_many_changes_the_first_are_named(checkout: Path) -> None:
    """And all are counted."""
    for number in range(MOST_CHANGED + 5):
        (checkout / f"new-{number:02}.py").write_text("1")

    found = git_state(checkout)

    assert (len(found["changed"]), found["changed_count"]) == (MOST_CHANGED, MOST_CHANGED + 5)


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
