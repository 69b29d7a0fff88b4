"""What the machine does to a command ends in one message, and never with exit code 1."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from lagbench.cli import app, machine_faults, main
from lagbench.errors import ExitCode

COMMAND = [sys.executable, "-c", "from lagbench.cli import main; main()"]
LONG = "a" * 400


def command(tmp_path: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    variables = {"LAGBENCH_STATE_DIR": str(tmp_path / "state"), "LAGBENCH_RUNS_DIR": str(tmp_path)}
    options = {"stdout": subprocess.PIPE, "env": {**os.environ, **variables}, **options}
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, check=False, **options
    )


def test_a_closed_pipe_is_no_failure(tmp_path: Path) -> None:
    """The reader has gone before the first line."""
    reads, writes = os.pipe()
    os.close(reads)
    done = command(tmp_path, "--help", stdout=writes)
    os.close(writes)

    assert (done.returncode, done.stderr) == (ExitCode.PASS, "")


def test_a_full_output_is_named(tmp_path: Path) -> None:
    """One line, once."""
    with Path("/dev/full").open("w") as full:
        done = command(tmp_path, "show", stdout=full)

    assert done.returncode == ExitCode.NOT_READY
    assert done.stderr == "no space left on the output\n"


def test_another_encoding_replaces_what_it_lacks(tmp_path: Path) -> None:
    """The table of a verdict has marks that latin-1 has not."""
    run = tmp_path / "a-20260101-000000-abcd"
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"scenario": "✓", "created_at": 1}))
    variables = {**os.environ, "LAGBENCH_RUNS_DIR": str(tmp_path), "PYTHONIOENCODING": "latin-1"}
    done = command(tmp_path, "show", env=variables)

    assert done.returncode == ExitCode.PASS, done.stderr
    assert "?" in done.stdout


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the command here and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["lagbench", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", "quick_spike", "--policy", LONG), ExitCode.WRONG_INPUT),
        (("plan", LONG), ExitCode.WRONG_INPUT),
        (("policy", "check", LONG), ExitCode.WRONG_INPUT),
        (("show", LONG), ExitCode.WRONG_INPUT),
        (("compare", LONG, LONG), ExitCode.WRONG_INPUT),
        (("show", f"{LONG}#{LONG}"), ExitCode.WRONG_INPUT),
        (("observe", "--group", "g", "--topic", "t", "--kafka-config", LONG), 2),
        (("run", "quick_spike", "--target", "context:a", "--target-settings", LONG), 2),
    ],
)
def test_a_long_name_is_wrong_input(
    arguments: tuple[str, ...],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The file system refuses it; nothing is started."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))

    assert ended(monkeypatch, *arguments) == code
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["[1]", '{"status": 3}', "3", "null", '"x"'])
@pytest.mark.parametrize("verb", ["show", "compare", "history", "baseline"])
def test_a_verdict_of_another_form_is_named(
    verb: str,
    content: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run of another version, or one that somebody edited."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    run = tmp_path / "a-20260101-000000-abcd"
    run.mkdir()
    (run / "manifest.json").write_text('{"scenario": "a", "policy": "b", "created_at": 1}')
    (run / "verdict.json").write_text(content)
    arguments = {"compare": ("latest", "latest"), "history": ("--rebuild",)}.get(verb, ("latest",))

    assert ended(monkeypatch, verb, *arguments) in {0, ExitCode.WRONG_INPUT, ExitCode.NOT_READY}
    assert "Traceback" not in capsys.readouterr().err


def test_a_runs_folder_that_is_a_file_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The variable is named before the bench is."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", "/dev/null")

    assert ended(monkeypatch, "run", "quick_spike") == ExitCode.WRONG_INPUT
    assert "LAGBENCH_RUNS_DIR" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


class Case(NamedTuple):
    """An error that a command meets, and how it ends."""

    error: BaseException
    code: int
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Case(OSError(errno.ENOSPC, "No space left on device"), 3, "no space left on"),
        Case(OSError(errno.ENOSPC, "x", "/runs/a"), 3, "no space left on /runs/a"),
        Case(NotADirectoryError(errno.ENOTDIR, "Not a directory", "/dev/null/a"), 3, "/dev/null/a"),
        Case(PermissionError(errno.EACCES, "Permission denied", "/runs/a"), 3, "/runs/a"),
        Case(KeyboardInterrupt(), 130, "stopped"),
        Case(ZeroDivisionError("x"), 3, "fault in lagbench"),
    ],
    ids=str,
)
def test_no_error_ends_with_the_code_of_a_failed_slo(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has a code that says what kind it is, and its message names the place."""

    def fail(**_: object) -> None:
        raise case.error

    monkeypatch.setattr(app, "app", fail)

    assert ended(monkeypatch) == case.code
    assert case.says in capsys.readouterr().err


def test_an_interrupt_of_the_imports_is_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They take most of a second, in which a user may have thought better of it."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "main", interrupt)

    assert ended(monkeypatch) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_a_disk_that_was_full_is_the_reason_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite and Python have their own words; the folder without room is named."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    assert machine_faults.no_space("sensor timed out") is None
    for words in (
        "[Errno 28] No space left on device",
        "(OperationalError) database or disk is full",
    ):
        assert str(machine_faults.no_space(words)).startswith("no space left on a device")

    free = "lagbench.embedded.broker.free_disk_bytes"
    monkeypatch.setattr(free, lambda folder: 0 if folder.name == "state" else 2**30)

    assert f"no space left on {tmp_path}/state;" in str(machine_faults.no_space("any"))
