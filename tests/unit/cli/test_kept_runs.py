"""Commands on a run that an experiment kept: FILE#RUN."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fakes.compared_runs import write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.cli import main
from lagbench.errors import ExitCode

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def lagbench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return a function that runs a command and returns exit code and output."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["lagbench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        return int(str(ended.value.code)), " ".join((found.out + found.err).split())

    return run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file that keeps the runs ``one-1``, which failed, and ``one-2``."""
    folder = ExperimentFolder(tmp_path / "kept")
    folder.keep(write_run(tmp_path / "elsewhere", "one-1", verdict="fail"), {})
    folder.keep(write_run(tmp_path / "elsewhere", "one-2", reaction=25.5, policy="fast"), {})
    return folder.kept


def test_the_verdict_of_a_kept_run_is_the_exit_code(file: Path, lagbench: Command) -> None:
    """It is printed as that of a run folder."""
    code, text = lagbench("show", f"{file}#one-1")

    assert code == ExitCode.SLO_FAILED
    assert "verdict of one-1" in text


def test_the_report_of_a_kept_run_is_a_page(file: Path, lagbench: Command, tmp_path: Path) -> None:
    """It lies in the runs folder, whose list of runs does not change."""
    code, text = lagbench("report", f"{file}#one-2")
    page = tmp_path / "runs/_kept/one-2/report.html"

    assert code == ExitCode.PASS
    assert text.endswith(f"report: {page}")
    assert "25.5 s" in page.read_text()
    assert "one-2" not in lagbench("show")[1]


def test_kept_runs_are_compared_with_any_other(
    file: Path, lagbench: Command, tmp_path: Path
) -> None:
    """A kept run and one of the runs folder are two runs."""
    write_run(tmp_path / "runs", "b", reaction=20)

    code, text = lagbench("compare", "b", f"{file}#one-2")

    assert code == ExitCode.PASS
    assert "Scale-out reaction, s 20.0 25.5 +5.5 –" in text


@pytest.mark.parametrize("command", ["show", "report", "compare", "account", "baseline", "watch"])
def test_a_wrong_kept_run_is_wrong_input(command: str, file: Path, lagbench: Command) -> None:
    """An ambiguous name; and a command that needs what is not kept takes no kept run at all."""
    code, text = lagbench(command, f"{file}#one", *(["b"] if command == "compare" else []))

    assert code == ExitCode.WRONG_INPUT
    assert f"{file}#one" in text
