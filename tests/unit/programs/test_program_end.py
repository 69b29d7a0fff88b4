"""A program's end waits for no thread, and leaves no temporary file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import sys, tempfile, threading
from lagbench.programs.program_end import end_program

folder = tempfile.TemporaryDirectory(dir=sys.argv[1])
threading.Thread(target=threading.Event().wait).start()
print("flushed")
end_program(4)
"""


def test_an_end_waits_for_no_thread_and_deletes_temporary_files(tmp_path: Path) -> None:
    """The exit code and the output are the program's, though a thread of it never ends."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (4, "flushed\n", "")
    assert list(tmp_path.iterdir()) == []


_FAILING = """
import logging, sys, threading
from lagbench.errors import NotReady, WrongInput
from lagbench.programs.program_end import run_program

def main():
    threading.Thread(target=threading.Event().wait).start()
    raise {error}

run_program(main, log={log})
"""
_WRONG = 'WrongInput(where="f", field="x", value=1, allowed="2")'


@pytest.mark.parametrize(
    ("error", "log", "code", "said"),
    [
        ('NotReady("no broker")', None, 3, "^no broker\n$"),
        (_WRONG, None, 2, "^f: x = 1 is [^\n]*\n$"),
        ('NotReady("no broker")', 'logging.getLogger("p")', 3, "^[^\n]* ERROR no broker\n$"),
        ('ValueError("odd")', None, 3, " failed\nTraceback .*\nValueError: odd\n$"),
    ],
)
def test_no_error_waits_for_a_thread(error: str, log: str | None, code: int, said: str) -> None:
    """An expected error is one message with its own code, any other has its traceback."""
    ended = subprocess.run(
        [sys.executable, "-c", _FAILING.format(error=error, log=log)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert ended.returncode == code
    assert re.search(said, ended.stderr, re.DOTALL), ended.stderr


def test_a_program_ends_with_the_code_that_it_returns() -> None:
    """What ``main`` returns is the exit code."""
    program = "from lagbench.programs.program_end import run_program\nrun_program(lambda: 4)"
    ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)

    assert ended.returncode == 4
