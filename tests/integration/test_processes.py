"""Ending processes that are somebody else's children."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from lagbench.adapters.process.processes import end_process, is_alive

pytestmark = pytest.mark.integration

# A parent that starts a child, names it, and never asks how it ended.
CARELESS = (
    "import subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']);"
    "print(child.pid, flush=True); time.sleep(300)"
)


def test_a_process_that_its_parent_does_not_reap_has_ended() -> None:
    """A zombie keeps its number; whoever asked it to end does not wait for the parent."""
    parent = subprocess.Popen([sys.executable, "-c", CARELESS], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())

        assert end_process(pid, grace_seconds=40)  # it ended when asked, not when that was over

        assert parent.poll() is None
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        assert not is_alive(pid)
    finally:
        parent.kill()
        parent.wait(timeout=10)
