"""Ending processes that are somebody else's children, or that a reaper watches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from tests.eventually import eventually

from localkube.processes import GroupReaper, end_process, is_alive

pytestmark = pytest.mark.slow

FOREVER = [sys.executable, "-c", "import signal; signal.pause()"]

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


@pytest.fixture
def two() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Provide two processes that lead their own groups."""
    processes = [subprocess.Popen(FOREVER, start_new_session=True) for _ in range(2)]
    yield processes
    for process in processes:
        process.kill()
        process.wait(timeout=10)


def killed(reaper: GroupReaper) -> int:
    """Kill the reaper process and return its number once it has ended, without reaping it."""
    pid = reaper.pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def test_a_killed_reaper_is_replaced(two: list[subprocess.Popen[bytes]]) -> None:
    """Another one takes over, when something is watched or forgotten, or when it is looked at."""
    reaper = GroupReaper()
    reaper.watch(two[0].pid)
    pids = [killed(reaper)]

    reaper.watch(two[1].pid)
    pids.append(killed(reaper))
    reaper.forget(two[1].pid)
    pids.append(killed(reaper))
    reaper.restart_if_killed()
    pids.append(reaper.pid)
    reaper.restart_if_killed()
    assert reaper.pid == pids[-1]
    reaper.close()

    assert len(set(pids)) == 4
    assert two[0].wait(timeout=60) == -signal.SIGKILL
    assert two[1].poll() is None


def test_a_process_that_made_its_own_group_is_reaped_too() -> None:
    """A task of Airflow does: it stays in the session of what is watched."""
    apart = "import os, signal; os.fork() or os.setpgid(0, 0); os.write(1, b'%d\\n' % os.getpid());"
    leader = subprocess.Popen(
        [sys.executable, "-c", apart + "signal.pause()"],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert leader.stdout is not None
    found = {int(leader.stdout.readline()) for _ in range(2)}
    reaper = GroupReaper()
    reaper.watch(leader.pid)

    reaper.close()

    assert leader.pid in found
    assert leader.wait(timeout=60) == -signal.SIGKILL
    eventually(lambda: not any(map(is_alive, found)), "the end of both")


def test_the_groups_of_a_killed_reaper_end_with_its_owner(
    two: list[subprocess.Popen[bytes]],
) -> None:
    """Closed after the reaper process was killed, it ends what it watched, and watches no more."""
    reaper = GroupReaper()
    reaper.watch(two[0].pid)
    pid = killed(reaper)

    reaper.close()
    reaper.close()
    reaper.forget(two[0].pid)

    assert two[0].wait(timeout=60) == -signal.SIGKILL
    assert two[1].poll() is None
    assert reaper.pid == pid
    with pytest.raises(BrokenPipeError):
        reaper.watch(two[1].pid)
