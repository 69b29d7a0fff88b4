"""What the machine does to a command ends in one message, and never with exit code 1."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from lagbench.cli import app, machine_faults
from lagbench.errors import ExitCode

RUN = "a-20260101-000000-abcd"


def command(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    variables = {"LAGBENCH_STATE_DIR": str(folder / "state"), "LAGBENCH_RUNS_DIR": str(folder)}
    options = {"stdout": subprocess.PIPE, "env": {**os.environ, **variables}, **options}
    started = [sys.executable, "-c", "from lagbench.cli import main; main()", *arguments]
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        started, stderr=subprocess.PIPE, text=True, check=False, **options
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
    (tmp_path / RUN).mkdir()
    (tmp_path / RUN / "manifest.json").write_text('{"scenario": "✓", "created_at": 1}')
    variables = {**os.environ, "LAGBENCH_RUNS_DIR": str(tmp_path), "PYTHONIOENCODING": "latin-1"}
    done = command(tmp_path, "show", env=variables)

    assert done.returncode == ExitCode.PASS, done.stderr
    assert "?" in done.stdout


@pytest.mark.parametrize("content", ["[1]", '{"status": 3}', "3", "null", '"x"'])
@pytest.mark.parametrize("verb", ["show", "compare", "history", "baseline"])
def test_a_verdict_of_another_form_is_named(lagbench: Command, verb: str, content: str) -> None:
    """A run of another version, or one that somebody edited."""
    run = lagbench.runs / RUN
    run.mkdir(parents=True)
    figures = {"scenario": "a", "policy": "b", "created_at": 1}
    (run / "manifest.json").write_text(json.dumps(figures))
    (run / "verdict.json").write_text(content)
    arguments = {"compare": ("latest", "latest"), "history": ("--rebuild",)}.get(verb, ("latest",))

    answer = lagbench(verb, *arguments)

    assert answer.code in {0, ExitCode.WRONG_INPUT, ExitCode.NOT_READY}
    assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 3, "no space left on"),
        (OSError(errno.ENOSPC, "x", "/runs/a"), 3, "no space left on /runs/a"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/dev/null/a"), 3, "/dev/null/a"),
        (PermissionError(errno.EACCES, "Permission denied", "/runs/a"), 3, "/runs/a"),
        (KeyboardInterrupt(), 130, "stopped"),
        (ZeroDivisionError("x"), 3, "fault in lagbench"),
    ],
    ids=str,
)
def test_no_error_ends_with_the_code_of_a_failed_slo(
    lagbench: Command, error: BaseException, code: int, says: str
) -> None:
    """Each has a code that says what kind it is, and its message names the place."""

    def fail(**_: object) -> None:
        raise error

    lagbench.monkeypatch.setattr(app, "app", fail)
    answer = lagbench()

    assert answer.code == code
    assert says in answer.err


def test_an_interrupt_of_the_imports_is_one_word(lagbench: Command) -> None:
    """They take most of a second, in which a user may have thought better of it."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    lagbench.monkeypatch.setattr(app, "main", interrupt)

    assert lagbench() == (130, "", "stopped\n")


def test_a_disk_that_was_full_is_the_reason_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite and Python have their own words; the folder without room is named."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    assert machine_faults.no_space("sensor timed out") is None
    for words in ("[Errno 28] No space left on device", "database or disk is full"):
        assert str(machine_faults.no_space(words)).startswith("no space left on a device")
    free = "lagbench.embedded.broker.free_disk_bytes"
    monkeypatch.setattr(free, lambda folder: 0 if folder.name == "state" else 2**30)
    assert f"no space left on {tmp_path}/state;" in str(machine_faults.no_space("any"))
