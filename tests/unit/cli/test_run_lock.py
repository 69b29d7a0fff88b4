"""A bench holds one run at a time, and ``down`` ends the one that holds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from lagbench.cli.run_lock import one_run_at_a_time, stop_running_run
from lagbench.errors import NotReady

HOLD = """
import signal, sys
from pathlib import Path
from lagbench.cli.run_lock import one_run_at_a_time
with one_run_at_a_time(Path(sys.argv[1])):
    print("held", flush=True)
    signal.pause()
"""


def test_a_second_run_is_refused_by_name(tmp_path: Path) -> None:
    """The message names the process that holds the bench."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(NotReady, match=str(holder.pid)), one_run_at_a_time(tmp_path):
            pass
        assert stop_running_run(tmp_path) == "a run"
        assert not psutil.pid_exists(holder.pid)


def test_a_run_that_does_not_end_is_killed_and_said(tmp_path: Path) -> None:
    """Once when it is asked to end, and once when that was not enough."""
    deaf = HOLD.replace(
        "signal.pause()",
        "signal.signal(15, signal.SIG_IGN)\n    print('deaf', flush=True)\n    signal.pause()",
    )
    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", deaf, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert [holder.stdout.readline() for _ in range(2)] == ["held\n", "deaf\n"]

        stop_running_run(tmp_path, grace_seconds=0.2, say=said.append)

    asked, killed = said
    assert f"pid {holder.pid}" in asked
    assert f"pid {holder.pid}" in killed


def test_the_lock_ends_with_its_run(tmp_path: Path) -> None:
    """After a run the next one may start, and there is nothing to stop."""
    with one_run_at_a_time(tmp_path):
        pass
    with one_run_at_a_time(tmp_path):
        pass

    assert not stop_running_run(tmp_path)
