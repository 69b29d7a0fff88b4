"""The end of a program is asked for by a signal, at any instant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from lagbench.adapters.process.stop_signal import StopSignal

# As if the signal came before each line of the wait: in turn, all of them.
_SIGNAL_AT_EVERY_LINE = """
import signal, sys
from lagbench.adapters.process.stop_signal import StopSignal

stop, lines = StopSignal.caught(), []

def at_each_line(frame, event, _):
    if event == "line":
        lines.append(frame.f_lineno)
        signal.raise_signal(signal.SIGTERM)
    return at_each_line

sys.settrace(at_each_line)
ended = stop.wait(600)
sys.settrace(None)
assert lines
print(ended, stop.is_set())
"""


def test_a_signal_during_any_line_of_the_wait_ends_it() -> None:
    """The handler takes no lock that the waiting thread may hold."""
    ended = subprocess.run(
        [sys.executable, "-c", _SIGNAL_AT_EVERY_LINE],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True True\n", "")


def test_a_wait_that_nobody_ends_is_over_in_its_time() -> None:
    """Also one whose time is over before it begins."""
    stop = StopSignal()

    assert [stop.wait(0.001), stop.wait(0.0), stop.wait(-1.0)] == [False] * 3
    assert not stop.is_set()


def test_every_wait_after_the_request_ends_at_once() -> None:
    """Signals that come again and again never fill what carries them."""
    stop = StopSignal()
    for _ in range(100_000):
        stop.set()

    assert [stop.wait(600), stop.wait(600), stop.is_set()] == [True] * 3


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_signals_that_end_a_program_are_caught(signum: signal.Signals) -> None:
    """SIGTERM and SIGINT, unless others are named."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop = StopSignal.caught()
        os.kill(os.getpid(), signum)
        assert stop.wait(60)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
