"""The owner's end is seen, and so is a request to end."""

from __future__ import annotations

import os
import subprocess

import pytest

from lagbench.programs.live.owner_watch import OwnerWatch


def test_a_living_owner_lets_the_wait_pass() -> None:
    """Nothing has ended after the wait."""
    assert not OwnerWatch(os.getpid()).wait(0.0)


def test_the_owner_s_end_ends_the_wait() -> None:
    """Also of an owner that was killed and that nobody has waited for."""
    owner = subprocess.Popen(["sleep", "600"])
    watch = OwnerWatch(owner.pid)
    owner.kill()

    assert watch.wait(60.0)
    owner.wait()


def test_a_request_ends_the_wait() -> None:
    """As from a signal handler."""
    watch = OwnerWatch(os.getpid())
    watch.ask()

    assert watch.wait(60.0)


def test_an_owner_that_has_ended_is_refused() -> None:
    """There is no process to hold."""
    owner = subprocess.Popen(["true"])
    owner.wait()

    with pytest.raises(ProcessLookupError):
        OwnerWatch(owner.pid)
