"""What the programs do when somebody sets the wall clock under them."""

from __future__ import annotations

import time

import pytest

from lagbench.core.telemetry.record import ClockStepped, Record
from lagbench.programs.steady_clock import ClockWatch, SteadyClock


def set_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Move the wall clock of this process."""
    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + round(seconds * 1e9))


def test_the_clock_agrees_with_the_wall_clock_and_does_not_follow_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a millisecond at the start; a step of an hour does not show."""
    clock = SteadyClock()
    earliest = time.time_ns()
    shown = clock.now_ns()
    assert earliest - 1_000_000 <= shown <= time.time_ns() + 1_000_000

    set_clock(monkeypatch, -3600)

    assert 0 <= clock.now_ns() - shown < 10e9


@pytest.mark.parametrize("step", [-5.0, -0.15, 0.15, 4.0])
def test_a_step_is_sent_once(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    """By whoever looks first, stamped by the clock as it is now."""
    sent: list[Record] = []
    watch = ClockWatch("recorder-1", sent.append)
    watch.look()
    set_clock(monkeypatch, step)
    watch.look()
    watch.look()

    [found] = sent
    assert isinstance(found, ClockStepped)
    assert found.source == "recorder-1"
    assert found.step_seconds == pytest.approx(step, abs=0.02)
    assert abs(found.at - time.time_ns()) < 10e9
