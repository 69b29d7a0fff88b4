"""``lagbench history``: cells, runs of a cell, changes, and making it again."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.compared_runs import write_run

from lagbench.cli import main
from lagbench.errors import ExitCode
from lagbench.results.history import HISTORY_FILE, append_history

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs the command over an empty runs folder, ``tmp_path``."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["lagbench", "history", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        return int(str(ended.value.code)), " ".join((found.out + found.err).split())

    return run


def test_without_runs_it_says_so(history: Command) -> None:
    """There is nothing to list."""
    assert history() == (ExitCode.PASS, "no runs yet: make rehearse")


def test_each_cell_is_a_line(tmp_path: Path, history: Command) -> None:
    """Two seeds are two cells; each has its runs and the newest one."""
    for number, seed in enumerate((1, 1, 2)):
        append_history(write_run(tmp_path, f"run-{number}", seed=seed, created_at=number))

    text = history()[1]

    assert "quick_spike/slow/1" in text
    assert "quick_spike/slow/2" in text
    assert "2 run-1 1970-01-01" in text


def test_a_run_id_is_whole_in_a_narrow_terminal(
    tmp_path: Path, history: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids and values are never cut, as the next command needs them."""
    monkeypatch.setenv("COLUMNS", "40")
    append_history(write_run(tmp_path, "quick-spike-20261123-170813-77de"))

    assert "quick-spike-20261123-170813-77de" in history()[1]
    assert "quick-spike-20261123-170813-77de" in history("quick_spike")[1]
    assert "…" not in history("quick_spike")[1]


def test_runs_without_a_readable_cell_are_counted(tmp_path: Path, history: Command) -> None:
    """A folder whose scenario was changed is of no cell, and is not silently left out."""
    folder = write_run(tmp_path, "run")
    folder.write_text(folder.scenario, "name: 7")
    append_history(folder)

    assert history()[1].endswith("runs without a readable cell: 1")


def test_a_cell_shows_its_runs_and_its_changes(tmp_path: Path, history: Command) -> None:
    """By scenario, policy and seed, or by the beginning of its name."""
    for night in range(26):
        reaction = (20 if night < 20 else 60) + night % 3 / 10
        append_history(write_run(tmp_path, f"run-{night:02}", created_at=night, reaction=reaction))

    code, text = history("quick_spike/slow/1")

    assert code == ExitCode.PASS
    assert history("quick_spike")[1] == text
    assert "run-20: 20.1 s -> 60.1 s" in text
    assert "run-25 1970-01-01" in text


def test_an_unknown_cell_is_refused(tmp_path: Path, history: Command) -> None:
    """With the names of the cells there are; a part of a name is none."""
    append_history(write_run(tmp_path, "run"))

    for name in ("quick", "quick_spike/s", "other"):
        code, text = history(name)
        assert code == ExitCode.WRONG_INPUT
        assert "quick_spike/slow/1" in text


def test_rebuild_makes_it_from_the_folders(tmp_path: Path, history: Command) -> None:
    """The number of lines is printed."""
    write_run(tmp_path, "run")

    code, text = history("--rebuild")

    assert code == ExitCode.PASS
    assert text.startswith("history: 1 runs, 0 ")
    assert (tmp_path / HISTORY_FILE).exists()


def test_rebuild_names_the_runs_that_it_leaves_out(tmp_path: Path, history: Command) -> None:
    """A run folder with another content is printed with the reason."""
    write_run(tmp_path, "run")
    folder = write_run(tmp_path, "other")
    folder.write_json(folder.manifest, {"created_at": "yesterday"})

    code, text = history("--rebuild")

    assert code == ExitCode.PASS
    assert text.startswith("history: 1 runs")
    assert "run other" in text
