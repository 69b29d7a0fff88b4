"""When an action is due: at a second of the stream, or in a state of the run."""

from __future__ import annotations

import threading

from lagbench.core.scenario.actions import KillPod
from lagbench.core.telemetry.producer import StreamStarted
from lagbench.core.telemetry.recorder import LagSample
from lagbench.programs.actions.stream_state import StreamState

NS = 1_000_000_000
AT_SECOND = KillPod(kind="kill_pod", at_seconds=10)
DRAINED = KillPod(kind="kill_pod", at="lag_drained")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Begin at 100 s."""
        self.now = 100 * NS

    def __call__(self) -> int:
        """Return the instant."""
        return self.now


def state_at(clock: Clock) -> StreamState:
    """Return a state that is drained at 50 messages, from second 20 on."""
    return StreamState(clock, drained_records=50, drained_after_seconds=20)


def stream(second: float = 100) -> StreamStarted:
    """Start the stream."""
    return StreamStarted(
        at=1,
        source="producer",
        stream_started_at=round(second * NS),
        seed=1,
        profile="step",
        planned_total=1,
        planned_seconds=1,
        partitions=1,
    )


def lag(second: float, *partitions: tuple[int, int, int | None]) -> LagSample:
    """Sample the lag."""
    return LagSample(at=round(second * NS), source="recorder", partitions=list(partitions))


def is_due(state: StreamState, action: KillPod) -> bool:
    """Return whether the action is due now."""
    left_seconds = state.left_seconds(action)
    return left_seconds is not None and left_seconds <= 0


def test_a_second_counts_from_the_streams_start() -> None:
    """Before the stream is known nothing is due, and neither before the second."""
    clock = Clock()
    state = state_at(clock)
    clock.now = 110 * NS

    assert not is_due(state, AT_SECOND)
    state.take(stream())
    assert state.planned_at(AT_SECOND) == 110 * NS
    assert is_due(state, AT_SECOND)
    clock.now -= 1 * NS
    assert not is_due(state, AT_SECOND)


def test_the_lag_is_drained_after_the_spike_only() -> None:
    """A low lag before the spike's end is none that drained, and an unknown commit is no zero."""
    state = state_at(Clock())
    for record in (
        stream(),
        lag(115, (0, 100, 100)),
        lag(121, (0, 100, 40)),
        lag(122, (0, 9, None)),
    ):
        state.take(record)
        assert not is_due(state, DRAINED)

    state.take(lag(123, (0, 100, 60), (1, 0, None)))

    assert is_due(state, DRAINED)
    assert state.planned_at(DRAINED) is None


def test_a_state_that_was_reached_stays_reached() -> None:
    """A lag that rises again does not take it back."""
    state = state_at(Clock())
    for record in (stream(), lag(123, (0, 100, 100)), lag(124, (0, 900, 100))):
        state.take(record)

    assert is_due(state, DRAINED)


def test_a_program_that_ends_waits_no_longer() -> None:
    """What is not due when it ends is not played; what is due is."""
    state, stopping = state_at(Clock()), threading.Event()
    state.take(stream(50))

    assert state.await_begin(AT_SECOND, stopping)
    stopping.set()
    assert not state.await_begin(DRAINED, stopping)
