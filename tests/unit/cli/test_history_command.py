"""``lagbench history``: cells, runs of a cell, changes, and making it again."""

from __future__ import annotations

import pytest
from tests.fakes.compared_runs import write_run
from tests.unit.cli.conftest import Command

from lagbench.errors import ExitCode
from lagbench.results.history import HISTORY_FILE, append_history

LONG_ID = "quick-spike-20261123-170813-77de"


def test_without_runs_it_says_so(lagbench: Command) -> None:
    """There is nothing to list."""
    answer = lagbench("history")
    assert (answer.code, answer.text) == (ExitCode.PASS, "no runs yet: make rehearse")


def test_each_cell_is_a_line(lagbench: Command) -> None:
    """Two seeds are two cells; each has its runs and the newest one.

    A folder whose scenario was changed is of no cell, and is counted.
    """
    for number, seed in enumerate((1, 1, 2)):
        append_history(write_run(lagbench.runs, f"run-{number}", seed=seed, created_at=number))
    changed = write_run(lagbench.runs, "changed")
    changed.write_text(changed.scenario, "name: 7")
    append_history(changed)
    text = lagbench("history").text

    assert "quick_spike/slow/1" in text
    assert "quick_spike/slow/2" in text
    assert "2 run-1 1970-01-01" in text
    assert text.endswith("runs without a readable cell: 1")


def test_a_run_id_is_whole_in_a_narrow_terminal(lagbench: Command) -> None:
    """Ids and values are never cut, as the next command needs them."""
    lagbench.monkeypatch.setenv("COLUMNS", "40")
    append_history(write_run(lagbench.runs, LONG_ID))

    for arguments in ((), ("quick_spike",)):
        text = lagbench("history", *arguments).text
        assert LONG_ID in text
        assert "…" not in text


def test_a_cell_shows_its_runs_and_its_changes(lagbench: Command) -> None:
    """By scenario, policy and seed, or by the beginning of its name."""
    for night in range(26):
        reaction = (20 if night < 20 else 60) + night % 3 / 10
        name = f"run-{night:02}"
        append_history(write_run(lagbench.runs, name, created_at=night, reaction=reaction))
    answer = lagbench("history", "quick_spike/slow/1")

    assert answer.code == ExitCode.PASS
    assert lagbench("history", "quick_spike") == answer
    assert "run-20: 20.1 s -> 60.1 s" in answer.text
    assert "run-25 1970-01-01" in answer.text


@pytest.mark.parametrize("name", ["quick", "quick_spike/s", "other"])
def test_an_unknown_cell_is_refused(lagbench: Command, name: str) -> None:
    """With the names of the cells there are; a part of a name is none."""
    append_history(write_run(lagbench.runs, "run"))
    answer = lagbench("history", name)

    assert answer.code == ExitCode.WRONG_INPUT
    assert "quick_spike/slow/1" in answer.text


def test_rebuild_makes_it_from_the_folders(lagbench: Command) -> None:
    """The number of lines is printed, and a run folder with another content with the reason."""
    write_run(lagbench.runs, "run")
    folder = write_run(lagbench.runs, "other")
    folder.write_json(folder.manifest, {"created_at": "yesterday"})
    answer = lagbench("history", "--rebuild")

    assert answer.code == ExitCode.PASS
    assert answer.text.startswith("history: 1 runs, 0 ")
    assert "run other" in answer.text
    assert (lagbench.runs / HISTORY_FILE).exists()
