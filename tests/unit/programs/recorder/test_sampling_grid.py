"""Sampling on a fixed grid, on clocks that the tests turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from lagbench.core.telemetry.records_of_programs import Record
from lagbench.core.telemetry.records_of_recorder import ReadGap, ReplicaSample
from lagbench.programs.recorder import sampling_grid
from lagbench.programs.recorder.sampling_grid import GridSampler, Read

MS = 1_000_000
INTERVAL_NS = 50 * MS
ORIGIN_AT = 1_700_000_000_000 * MS


class Clocks:
    """A monotonic and a wall clock that only move when something waits or works."""

    def __init__(self) -> None:
        """Start between two ticks of the grid."""
        self.monotonic_at = 77 * MS
        self.wall_at = ORIGIN_AT + 120 * MS

    def monotonic_ns(self) -> int:
        """Return the monotonic clock."""
        return self.monotonic_at

    def time_ns(self) -> int:
        """Return the wall clock."""
        return self.wall_at

    def pass_ns(self, passed_ns: int) -> None:
        """Let time pass on both."""
        self.monotonic_at += passed_ns
        self.wall_at += passed_ns


class Waits:
    """Takes the place of the event that stops the sampler: it stops after some waits."""

    def __init__(self, clocks: Clocks, count: int) -> None:
        """Allow ``count`` readings."""
        self._clocks, self._left = clocks, count

    def wait(self, seconds: float) -> bool:
        """Let the time pass; return whether to stop."""
        self._clocks.pass_ns(round(seconds * 1e9))
        self._left -= 1
        return self._left < 0


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Give the sampler these clocks."""
    clocks = Clocks()
    monkeypatch.setattr(sampling_grid, "time", clocks)
    return clocks


def replicas(at: int) -> list[Record]:
    """Return one sample."""
    return [ReplicaSample(at=at, source="recorder", spec=1, current=1, ready=1)]


def sampler(send: Callable[[Record], None], read: Read, origin_at: int = ORIGIN_AT) -> GridSampler:
    """Sample each 50 ms."""
    return GridSampler(
        "replicas",
        read,
        send=send,
        source="recorder",
        origin_at=origin_at,
        interval_ns=INTERVAL_NS,
    )


def sampled(clocks: Clocks, read: Read, *, readings: int) -> list[Record]:
    """Return what a sampler sends in so many readings."""
    found: list[Record] = []
    running = sampler(found.append, read)
    running._stopping = Waits(clocks, readings)  # type: ignore[assignment]
    running.run()
    assert running.has_read
    return found


def test_samples_lie_on_the_grid(clocks: Clocks) -> None:
    """Each sample begins at the origin plus whole intervals, however long the others took."""
    delays_ms = iter([0, 31, 7, 49, 0])

    def read(at: int) -> Iterable[Record]:
        clocks.pass_ns(next(delays_ms) * MS)
        return replicas(at)

    found = sampled(clocks, read, readings=5)

    assert [record.at - ORIGIN_AT for record in found] == [
        number * INTERVAL_NS for number in range(3, 8)
    ]


def test_a_failed_read_is_a_gap_and_the_next_tick_goes_on(clocks: Clocks) -> None:
    """Nothing is made up: the gap carries the reason."""
    answers = iter([NotImplementedError("no answer"), None])

    def read(at: int) -> Iterable[Record]:
        failure = next(answers)
        if failure is not None:
            raise failure
        return replicas(at)

    gap, sample = sampled(clocks, read, readings=2)

    assert isinstance(gap, ReadGap)
    assert (gap.what, gap.reason) == ("replicas", "no answer")
    assert isinstance(sample, ReplicaSample)


def test_ticks_that_pass_during_a_slow_read_are_gaps(clocks: Clocks) -> None:
    """A read of 2.6 intervals leaves two gaps at their ticks, and the grid stays where it was."""
    delays_ms = iter([130, 0, 0])

    def read(at: int) -> Iterable[Record]:
        clocks.pass_ns(next(delays_ms) * MS)
        return replicas(at)

    found = sampled(clocks, read, readings=3)

    assert [(type(record), record.at - ORIGIN_AT) for record in found] == [
        (ReplicaSample, 150 * MS),
        (ReadGap, 200 * MS),
        (ReadGap, 250 * MS),
        (ReplicaSample, 300 * MS),
        (ReplicaSample, 350 * MS),
    ]
    reasons = {record.reason for record in found if isinstance(record, ReadGap)}
    assert [re.findall(r"\d+\.\d s", reason) for reason in reasons] == [["0.1 s"]]


def test_a_source_that_changes_is_read_five_times_a_second_until_it_is_at_rest(
    clocks: Clocks,
) -> None:
    """The readings between the ticks lead up to the next tick, and the grid stays where it was."""
    found: list[Record] = []
    second, delays_ms = 1000 * MS, iter([0, 0, 130, 0, 0, 0, 0])
    changing = iter([True, True, True, True, True, False, False])

    def read(at: int) -> Iterable[Record]:
        clocks.pass_ns(next(delays_ms) * MS)
        return replicas(at)

    running = GridSampler(
        "group",
        read,
        send=found.append,
        source="recorder",
        origin_at=ORIGIN_AT,
        interval_ns=second,
        is_changing=lambda: next(changing),
    )
    running._stopping = Waits(clocks, 7)  # type: ignore[assignment]
    running.run()

    assert [(record.at - ORIGIN_AT) // MS for record in found] == [
        1000,
        1200,
        1400,
        1600,
        1800,
        2000,
        3000,
    ]


def test_a_slow_read_between_two_ticks_leaves_gaps_at_the_ticks(clocks: Clocks) -> None:
    """Also while it changes, each tick that passed without a reading is reported."""
    found: list[Record] = []
    delays_ms, changing = iter([0, 2300, 0]), iter([True, True, False])

    def read(at: int) -> Iterable[Record]:
        clocks.pass_ns(next(delays_ms) * MS)
        return replicas(at)

    running = GridSampler(
        "group",
        read,
        send=found.append,
        source="recorder",
        origin_at=ORIGIN_AT,
        interval_ns=1000 * MS,
        is_changing=lambda: next(changing),
    )
    running._stopping = Waits(clocks, 3)  # type: ignore[assignment]
    running.run()

    assert [(type(record), (record.at - ORIGIN_AT) // MS) for record in found] == [
        (ReplicaSample, 1000),
        (ReplicaSample, 1200),
        (ReadGap, 2000),
        (ReadGap, 3000),
        (ReplicaSample, 3600),
    ]


@pytest.mark.parametrize("step_seconds", [-4, 4])
def test_readings_go_on_when_the_clock_is_set(clocks: Clocks, step_seconds: int) -> None:
    """A step of the wall clock, back or forward, neither stops the readings nor makes gaps."""
    began_at = clocks.monotonic_at

    def read(at: int) -> Iterable[Record]:
        if clocks.monotonic_at - began_at < INTERVAL_NS:
            clocks.wall_at += step_seconds * 1_000 * MS
        return replicas(at)

    found = sampled(clocks, read, readings=5)

    assert [type(record) for record in found] == [ReplicaSample] * 5
    assert clocks.monotonic_at - began_at < 6 * INTERVAL_NS
