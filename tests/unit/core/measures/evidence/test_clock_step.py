"""When a wall clock has stepped against the monotonic one."""

from __future__ import annotations

import pytest

from lagbench.core.measures.evidence.clock_step import ClockReading, ClockSteps, closest_reading

NS = 1_000_000_000
STARTED_AT = 1_795_000_000 * NS


def reading(seconds: float, *, stepped: float = 0.0, width: float = 0.0) -> ClockReading:
    """Read both clocks after some seconds; the wall clock has been moved by ``stepped`` seconds."""
    before = round(seconds * NS)
    return ClockReading(
        before, STARTED_AT + before + round(stepped * NS), before + round(width * NS)
    )


def steps_of(*readings: ClockReading) -> list[float | None]:
    """Take readings after one at 0 s."""
    steps = ClockSteps(reading(0))
    return [steps.take(found) for found in readings]


@pytest.mark.parametrize("step", [-3600.0, -5.0, -0.15, 0.15, 4.0, 86_400.0])
def test_a_step_is_reported_once_with_its_size(step: float) -> None:
    """Back is below 0; afterwards the new difference is the ordinary one."""
    found = steps_of(reading(1), reading(2, stepped=step), reading(3, stepped=step))

    assert found == [None, pytest.approx(step), None]


def test_suspend_is_a_step_forward() -> None:
    """The monotonic clock stands while the machine sleeps, the wall clock does not."""
    assert steps_of(reading(1), reading(2, stepped=30.0)) == [None, pytest.approx(30.0)]


def test_what_comes_apart_slowly_is_no_step_until_it_is_one_in_all() -> None:
    """Up to a tenth of a second is none; many small ones are told when together they are more."""
    found = steps_of(*(reading(n, stepped=0.03 * n) for n in range(1, 5)))

    assert found == [None, None, None, pytest.approx(0.12)]
    assert steps_of(reading(1, stepped=0.1), reading(2, stepped=-0.1)) == [None, None]


def test_a_reading_that_was_interrupted_proves_no_step() -> None:
    """A process that waited for 0.4 s between the clocks saw none; the next reading tells one."""
    late = reading(1, stepped=0.0, width=0.4)

    assert steps_of(late, reading(2)) == [None, None]
    assert steps_of(reading(1, stepped=0.2, width=0.4), reading(2, stepped=0.2)) == [
        None,
        pytest.approx(0.2),
    ]


def test_the_most_exact_reading_is_taken() -> None:
    """Of several the one between whose clocks the process waited least."""
    widths = iter([0.3, 0.001, 0.2])

    assert closest_reading(lambda: reading(1, width=next(widths)), tries=3).width_ns == NS // 1000
