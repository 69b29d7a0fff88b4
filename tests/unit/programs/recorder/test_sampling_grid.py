"""Sampling on a fixed grid."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable

import pytest

from lagbench.core.telemetry.records import ReadGap, Record, ReplicaSample
from lagbench.programs.recorder.sampling_grid import GridSampler

MS = 1_000_000


def replicas(at: int) -> list[Record]:
    """Return one sample."""
    return [ReplicaSample(at=at, source="recorder", spec=1, current=1, ready=1)]


class Collected:
    """Collects records and lets a test wait for a number of them."""

    def __init__(self) -> None:
        """Start empty."""
        self.records: list[Record] = []
        self._changed = threading.Condition()

    def send(self, record: Record) -> None:
        """Take a record."""
        with self._changed:
            self.records.append(record)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Record]:
        """Return the records when there are ``count``."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.records) >= count, 10)
            return list(self.records)


def sampler(
    collected: Collected, read: object, origin_at: int, *, interval_ms: int = 50
) -> GridSampler:
    """Sample every ``interval_ms``; a long interval outlasts a stall of the machine."""
    return GridSampler(
        "replicas",
        read,  # type: ignore[arg-type]
        send=collected.send,
        source="recorder",
        origin_at=origin_at,
        interval_ns=interval_ms * MS,
    )


def test_samples_lie_on_the_grid() -> None:
    """Each sample begins at the origin plus whole intervals, however long the others took."""
    collected, origin_at = Collected(), time.time_ns()
    running = sampler(collected, replicas, origin_at, interval_ms=250)
    running.start()

    found = collected.wait_for(5)
    running.stop()

    late = sorted((record.at - origin_at) % (250 * MS) for record in found)
    assert late[len(late) // 2] < 100 * MS
    assert running.has_read


def test_a_failed_read_is_a_gap_and_the_next_tick_goes_on() -> None:
    """Nothing is made up: the gap carries the reason."""
    collected = Collected()
    answers = iter([NotImplementedError("no answer"), None, None])

    def read(at: int) -> Iterable[Record]:
        failure = next(answers, None)
        if failure is not None:
            raise failure
        return replicas(at)

    running = sampler(collected, read, time.time_ns(), interval_ms=250)
    running.start()
    found = collected.wait_for(2)
    running.stop()

    assert isinstance(found[0], ReadGap)
    assert (found[0].what, found[0].reason) == ("replicas", "no answer")
    assert isinstance(found[1], ReplicaSample)


def test_ticks_that_pass_during_a_slow_read_are_gaps() -> None:
    """A read of three intervals leaves two gaps, and the grid stays where it was."""
    collected, origin_at = Collected(), time.time_ns()
    delays = iter([0.13])

    def read(at: int) -> Iterable[Record]:
        time.sleep(next(delays, 0))
        return replicas(at)

    running = sampler(collected, read, origin_at)
    running.start()
    found = collected.wait_for(4)
    running.stop()

    gaps = [record for record in found if isinstance(record, ReadGap)]
    assert len(gaps) >= 2
    assert all(-MS < (gap.at - origin_at + 25 * MS) % (50 * MS) - 25 * MS < 10 * MS for gap in gaps)
    assert re.search(r"the previous reading took \d+\.\d s", gaps[0].reason)


@pytest.mark.parametrize("step_seconds", [-4.0, 4.0])
def test_readings_go_on_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, step_seconds: float
) -> None:
    """A step of the wall clock, back or forward, neither stops the readings nor makes gaps."""
    collected = Collected()
    running = sampler(collected, replicas, time.time_ns(), interval_ms=200)
    running.start()
    before = collected.wait_for(2)

    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + round(step_seconds * 1e9))
    began = time.monotonic()
    found = collected.wait_for(len(before) + 5)[len(before) :]
    took_seconds = time.monotonic() - began
    running.stop()

    assert took_seconds < 2.0
    assert not any(isinstance(record, ReadGap) for record in found)
