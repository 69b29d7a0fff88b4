"""A program's end waits for no thread, and leaves no temporary file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
